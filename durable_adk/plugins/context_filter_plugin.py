"""A limit to how much of the conversation a model is shown."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from google.genai import types

from durable_adk.calling import call
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.log import get_logger
from durable_adk.models.llm_request import NOT_BY_THE_USER, LlmRequest
from durable_adk.plugins.base_plugin import BasePlugin

_LOG = get_logger(__name__)
CustomFilter: TypeAlias = Callable[[list[types.Content]], Any]
"""From the contents to those to send, sync or async."""


class ContextFilterPlugin(BasePlugin):
    """Shows the model the latest invocations only (PLG-7).

    The session keeps everything. What is cut depends on the request alone, so a step that is tried
    again cuts the same.
    """

    def __init__(
        self,
        num_invocations_to_keep: int | None = None,
        custom_filter: CustomFilter | None = None,
        name: str = "context_filter_plugin",
        remove_amount: int = 1,
    ) -> None:
        """Say what is to stay.

        Args:
            num_invocations_to_keep: How many invocations, the current one included; None: all.
            custom_filter: Sees what that leaves, and decides alone. What it raises is logged, and
                the model gets all contents, as in ADK.
            name: The plugin's name.
            remove_amount: Cut only when at least so many invocations would go; in between the
                prompt's beginning stays the same, which providers can cache.

        Raises:
            AgentDefinitionError: One of the numbers is less than 1.
        """
        super().__init__(name)
        numbers = [remove_amount, num_invocations_to_keep]
        if any(number is not None and number < 1 for number in numbers):
            raise AgentDefinitionError(
                "num_invocations_to_keep and remove_amount must be at least 1; "
                "to keep all invocations, leave num_invocations_to_keep out."
            )
        self._keep = num_invocations_to_keep
        self._custom_filter = custom_filter
        self._remove_amount = remove_amount

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Leave out what is too old."""
        del callback_context
        contents = llm_request.contents[self._start(llm_request.contents) :]
        if self._custom_filter is not None:
            try:
                contents = list(await call(self._custom_filter, contents))
            except Exception:  # noqa: BLE001 - whatever it is
                _LOG.exception("plugin.custom_filter_failed", plugin=self.name)
                return
        llm_request.contents = contents

    def _start(self, contents: Sequence[types.Content]) -> int:
        starts = _invocation_starts(contents)
        if self._keep is None or len(starts) < self._keep + self._remove_amount:
            return 0
        return _with_calls(contents, starts[-self._keep])


def _invocation_starts(contents: Sequence[types.Content]) -> list[int]:
    """Where a user's message begins an invocation; several in a row begin one."""
    said = [False, *map(_is_users_message, contents)]
    return [i for i in range(len(contents)) if said[i + 1] and not said[i]]


def _is_users_message(content: types.Content) -> bool:
    """Neither a tool's result nor a quotation of another agent, which have the same role."""
    parts = content.parts or []
    return (
        content.role == "user"
        and not any(part.function_response for part in parts)
        and not (parts and (parts[0].text or "").startswith(NOT_BY_THE_USER))
    )


def _with_calls(contents: Sequence[types.Content], start: int) -> int:
    """The latest position up to `start` that leaves no response without its call.

    Only a response with an id can stand apart from its call: whatever has none was put right
    behind it when the contents were built.
    """
    position = len(contents)
    callers = _callers(contents)
    while position > start:
        position -= 1
        start = min(start, callers[position])
    return start


def _callers(contents: Sequence[types.Content]) -> list[int]:
    """For each content the earliest position that it answers a call of, or its own."""
    called: dict[str, int] = {}
    callers: list[int] = []
    for position, content in enumerate(contents):
        earliest = position
        for part in content.parts or []:
            if part.function_call and part.function_call.id:
                called[part.function_call.id] = position
            if part.function_response and part.function_response.id:
                earliest = min(earliest, called.get(part.function_response.id, position))
        callers.append(earliest)
    return callers
