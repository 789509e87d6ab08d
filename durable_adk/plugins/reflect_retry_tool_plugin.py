"""A plugin that returns tool failures to the model, so that it can retry."""

import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError, ToolError, describe
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.sessions.state import APP_PREFIX, TEMP_PREFIX
from durable_adk.tools.base_tool import BaseTool

REFLECT_AND_RETRY_RESPONSE_TYPE = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"
_MAX_ARGUMENTS = 2_000
"""Maximum characters of the arguments in the guidance; the prompt has the whole call."""


class TrackingScope(StrEnum):
    """Scope in which failures are counted together."""

    INVOCATION = "invocation"
    """Failures of one invocation."""
    GLOBAL = "global"
    """Failures of all users and sessions of the app."""


class ToolFailureResponse(BaseModel):
    """The response that the model receives instead of a failed tool's result."""

    response_type: str = REFLECT_AND_RETRY_RESPONSE_TYPE
    error_type: str = ""
    error_details: str = ""
    retry_count: int = 0
    reflection_guidance: str = ""


class ReflectAndRetryToolPlugin(BasePlugin):
    """Responds to a failed tool call with guidance for another attempt (PLG-7).

    It counts a tool's failures since its last success, in the session's state under `temp:` or, for
    the global scope, `app:`. The count is committed with the response it belongs to, so a crash
    neither loses it nor counts a failure twice. Failures of one tool in parallel calls count as
    one.
    """

    def __init__(
        self,
        name: str = "reflect_retry_tool_plugin",
        max_retries: int = 3,
        throw_exception_if_retry_exceeded: bool = True,
        tracking_scope: TrackingScope = TrackingScope.INVOCATION,
    ) -> None:
        """Set the limit of consecutive failures.

        Args:
            name: The plugin's name.
            max_retries: Number of consecutive failures that get guidance; 0: none.
            throw_exception_if_retry_exceeded: Whether the next failure ends the run. If not, the
                guidance is to stop using the tool.
            tracking_scope: Scope in which failures are counted together.

        Raises:
            AgentDefinitionError: `max_retries` is negative.
        """
        super().__init__(name)
        if max_retries < 0:
            raise AgentDefinitionError(f"max_retries is {max_retries}; it must not be negative.")
        self.max_retries = max_retries
        self.throw_exception_if_retry_exceeded = throw_exception_if_retry_exceeded
        self._prefix = TEMP_PREFIX if tracking_scope is TrackingScope.INVOCATION else APP_PREFIX

    async def extract_error_from_result(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: Any,
    ) -> Any:
        """Return the error that a result represents; None unless a subclass overrides this."""
        del tool, tool_args, tool_context, result

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Reset the tool's count of failures, unless the result represents a failure."""
        if _is_guidance(result):
            return None
        error = await self.extract_error_from_result(
            tool=tool, tool_args=tool_args, tool_context=tool_context, result=result
        )
        if error is not None:
            return self._answer(tool, tool_args, tool_context, error)
        # Reset only an existing count: a step that writes `temp:` keys cannot commit its event
        # early.
        if tool_context.state.get(self._key(tool)):
            tool_context.state[self._key(tool)] = 0
        return None

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: Exception,
    ) -> dict[str, Any]:
        """Respond with guidance, or raise the error after too many failures."""
        return self._answer(tool, tool_args, tool_context, error)

    def _key(self, tool: BaseTool) -> str:
        return f"{self._prefix}{self.name}:{tool.name}"

    def _answer(
        self, tool: BaseTool, tool_args: dict[str, Any], context: ToolContext, error: Any
    ) -> dict[str, Any]:
        kind, details = _description(error)
        failures = context.state.get(self._key(tool), 0) + 1
        arguments = json.dumps(tool_args, ensure_ascii=False, default=str)[:_MAX_ARGUMENTS]
        failure_text = f"{kind}: {details}\nThe arguments were: {arguments}"
        if failures <= self.max_retries:
            context.state[self._key(tool)] = failures
            advice = _try_again(tool.name, failures, self.max_retries)
        elif self.throw_exception_if_retry_exceeded:
            raise error if isinstance(error, Exception) else ToolError(details)
        else:
            failures = self.max_retries
            advice = _give_up(tool.name)
        return ToolFailureResponse(
            error_type=kind,
            error_details=details,
            retry_count=failures,
            reflection_guidance=f"Tool `{tool.name}` failed with {failure_text}\n\n{advice}",
        ).model_dump()


def _is_guidance(result: Any) -> bool:
    """Return whether `on_tool_error_callback` has already counted the failure (CB-8)."""
    match result:
        case {"response_type": kind}:
            return bool(kind == REFLECT_AND_RETRY_RESPONSE_TYPE)
        case _:
            return False


def _description(error: Any) -> tuple[str, str]:
    """Return the error's type and message, the latter in a form that every store accepts."""
    kind, message = (
        describe(error) if isinstance(error, Exception) else (ToolError.__name__, str(error))
    )
    return kind, ToolError(message).message


def _try_again(tool: str, failures: int, limit: int) -> str:
    return (
        f"This was failure {failures} of at most {limit} in a row. Find the cause before you call "
        f"`{tool}` again, and do not repeat the same call:\n"
        "- Invalid Parameters: do the arguments fit the tool's description, in name, type, format "
        "and value?\n"
        "- State or Preconditions: does something have to be done or known first, by another tool "
        "or by asking the user?\n"
        "- Alternative Approach, Simplify the Task: is there another tool, or a smaller step, that "
        "leads to the same end?\n"
        "- Wrong Function Name: is there a tool of this name? Use only those that are available."
    )


def _give_up(tool: str) -> str:
    return (
        f"`{tool}` has failed too often. Do not call it again for this request. Reach the end in "
        "another way, or tell the user what could not be done, and why."
    )
