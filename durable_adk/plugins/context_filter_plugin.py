"""A plugin that limits how much of the conversation a model receives."""

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
"""Maps the contents to those to send; sync or async."""


class ContextFilterPlugin(BasePlugin):
    """Sends only the latest invocations to the model (PLG-7).

    The session keeps everything. The cut depends only on the request, so a retried step makes the
    same cut.
    """

    def __init__(
        self,
        num_invocations_to_keep: int | None = None,
        custom_filter: CustomFilter | None = None,
        name: str = "context_filter_plugin",
        remove_amount: int = 1,
    ) -> None:
        """Set what to keep.

        Args:
            num_invocations_to_keep: How many invocations, the current one included; None: all.
            custom_filter: Selects the contents to send from those that remain. Its exceptions are
                logged, and the model then receives all contents, as in ADK.
            name: The plugin's name.
            remove_amount: Cut only when at least this many invocations would be removed. Until then
                the prompt keeps its prefix, which providers can cache.

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
        """Remove the contents of older invocations from the request."""
        del callback_context
        contents = llm_request.contents[self._start(llm_request.contents) :]
        if self._custom_filter is not None:
            try:
                contents = list(await call(self._custom_filter, contents))
            except Exception:  # noqa: BLE001 - user code may raise anything
                _LOG.exception("plugin.custom_filter_failed", plugin=self.name)
                return
        llm_request.contents = contents

    def _start(self, contents: Sequence[types.Content]) -> int:
        starts = _invocation_starts(contents)
        if self._keep is None or len(starts) < self._keep + self._remove_amount:
            return 0
        return _with_calls(contents, starts[-self._keep])


def _invocation_starts(contents: Sequence[types.Content]) -> list[int]:
    """Return where user messages begin invocations; consecutive messages begin a single one."""
    is_user = [False, *map(_is_users_message, contents)]
    return [i for i in range(len(contents)) if is_user[i + 1] and not is_user[i]]


def _is_users_message(content: types.Content) -> bool:
    """Return whether the user wrote it; tool results and quotes of agents have the same role."""
    parts = content.parts or []
    return (
        content.role == "user"
        and not any(part.function_response for part in parts)
        and not (parts and (parts[0].text or "").startswith(NOT_BY_THE_USER))
    )


def _with_calls(contents: Sequence[types.Content], start: int) -> int:
    """Return the latest position up to `start` that separates no response from its call.

    Only responses with ids are checked: one without an id was placed directly behind its call when
    the contents were built.
    """
    position = len(contents)
    callers = _callers(contents)
    while position > start:
        position -= 1
        start = min(start, callers[position])
    return start


def _callers(contents: Sequence[types.Content]) -> list[int]:
    """Return for each content the earliest position of a call that it responds to, or its own."""
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
