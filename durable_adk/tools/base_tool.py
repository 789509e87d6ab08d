"""The port to a tool."""

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from google.genai import types

from durable_adk.errors import AgentDefinitionError
from durable_adk.models.llm_request import LlmRequest

if TYPE_CHECKING:
    from durable_adk.context import ToolContext

OnDeadline = Literal["reject", "approve", "fail", "tell"]
"""What happens when nobody has answered in time (design D9).

``reject`` and ``approve`` decide a confirmation, ``fail`` ends the run with an error, ``tell``
lets the model go on, told that there was no answer.
"""


class BaseTool:
    """Something an agent's model can call (semantics TOL-1)."""

    confirms_itself: ClassVar[bool] = False
    """Whether `run_async` sees to what `needs_confirmation` says; else the runtime does."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        is_long_running: bool = False,
        timeout: float | None = None,
        deadline: float | timedelta | None = None,
        on_deadline: OnDeadline = "reject",
        custom_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Describe the tool.

        Args:
            name: What the model calls it by; unique within the agent.
            description: What the model is told of it.
            is_long_running: Its result comes later, in a message of its own.
            timeout: Seconds one run may take; None for the worker's default.
            deadline: Seconds, or a timedelta, that an answer is waited for: a confirmation, a
                credential, a long-running tool's result. None: as long as it takes.
            on_deadline: What happens then. ``approve`` is for confirmations: it gives nobody a
                credential or a result.
            custom_metadata: The owner's notes; the runtime does not read them.

        Raises:
            AgentDefinitionError: The deadline is no time, or its policy does not fit the tool.
        """
        self.name = name
        self.description = description
        self.is_long_running = is_long_running
        self.timeout = timeout
        self.deadline = _seconds(deadline, name)
        self.on_deadline: OnDeadline = _checked(on_deadline, name, is_long_running)
        self.custom_metadata = custom_metadata

    def get_declaration(self) -> types.FunctionDeclaration | None:
        """What the model is told: name, description, parameters. None: nothing."""
        return self._get_declaration()

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return None

    async def needs_confirmation(self, args: dict[str, Any], tool_context: "ToolContext") -> bool:
        """Whether somebody must say yes before the tool runs with these arguments (TOL-60)."""
        del args, tool_context
        return False

    async def run_async(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """Run the tool; what it raises ends the run (TOL-18), what it returns is the response.

        It runs at least once per call: after a crash it may run again, with the same
        `tool_context.idempotency_key`.
        """
        del args, tool_context
        raise TypeError(f"{type(self).__name__} does not define run_async.")

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Change the request before it is sent; by default, declare the tool in it."""
        del tool_context
        llm_request.append_tools([self])


def _seconds(deadline: float | timedelta | None, name: str) -> float | None:
    seconds = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise AgentDefinitionError(
            f"The deadline of tool {name!r} is {deadline!r}; pass seconds above 0, or None."
        )
    return seconds


def _checked(policy: OnDeadline, name: str, is_long_running: bool) -> OnDeadline:
    if policy not in get_args(OnDeadline):
        known = ", ".join(get_args(OnDeadline))
        raise AgentDefinitionError(
            f"on_deadline of tool {name!r} is {policy!r}; use one of {known}."
        )
    if policy == "approve" and is_long_running:
        raise AgentDefinitionError(
            f"on_deadline of tool {name!r} is 'approve', which is for confirmations: a "
            "long-running tool waits for a result. Use 'tell' or 'fail'."
        )
    return policy
