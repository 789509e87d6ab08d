"""The base of all plugins."""

from typing import Any, Literal, TypeAlias, get_args

from google.genai import types

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.context.activity import CallbackContext, ToolContext
from durable_adk.errors import CallbackError
from durable_adk.events.event import Event
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.plugins.run_context import RunContext
from durable_adk.tools.base_tool import BaseTool

HookName: TypeAlias = Literal[
    "on_user_message_callback",
    "before_run_callback",
    "on_event_callback",
    "after_run_callback",
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
    "on_model_error_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
    "on_agent_error_callback",
    "on_run_error_callback",
]

HOOKS: tuple[HookName, ...] = get_args(HookName)
"""The names of all hooks."""
_ANSWERS: dict[HookName, type[Any]] = {
    "on_user_message_callback": types.Content,
    "before_run_callback": types.Content,
    "on_event_callback": Event,
    "after_run_callback": types.Content,
    "before_agent_callback": types.Content,
    "after_agent_callback": types.Content,
    "before_model_callback": LlmResponse,
    "after_model_callback": LlmResponse,
    "on_model_error_callback": LlmResponse,
}


def check_answer(hook: HookName, value: Any, source: str) -> None:
    """Check the type of a hook's return value; tool hooks may return any value.

    Args:
        hook: The hook.
        value: Its return value; None means that the hook does not intervene.
        source: The plugin or the function, for the error message.

    Raises:
        CallbackError: The value has the wrong type for the hook.
    """
    expected = _ANSWERS.get(hook, object)
    if value is not None and not isinstance(value, expected):
        raise CallbackError(
            f"{source} answered {hook} with {type(value).__name__}; return {expected.__name__} or "
            "None."
        )


class BasePlugin:
    """Hooks around all agents, models and tools of an app (PLG-1, PLG-2).

    Override the hooks you need. Each is called with keyword arguments, may be sync or async, and
    may do I/O. Returning None continues normally; each hook documents the effect of other values.
    Hooks run in the order of the app's plugins, before the agent's own callbacks; the first value
    other than None ends the round (PLG-3).

    A hook runs in the worker that runs the step, and again if the step is retried after a crash.
    One instance serves many invocations at once and may not exist any more at the next hook. So
    keep data for later hooks in the context's state (`temp:` keys last as long as the invocation),
    never in attributes.
    """

    def __init__(self, name: str) -> None:
        """Set the plugin's name, which is unique within an app."""
        self.name = name

    def hooks(self) -> frozenset[HookName]:
        """Return the hooks that the plugin defines; no other hooks are scheduled."""
        return frozenset(hook for hook in HOOKS if self._defines(hook))

    def _defines(self, hook: HookName) -> bool:
        # Also counts a hook that is set on the instance.
        method: Any = getattr(self, hook)
        return getattr(method, "__func__", None) is not getattr(BasePlugin, hook)

    # ----- a run

    async def on_user_message_callback(
        self, *, invocation_context: RunContext, user_message: types.Content
    ) -> types.Content | None:
        """Runs before a user message is stored; a returned value is stored in its place.

        A user's answer to a pending call is also such a message (RUN-26).
        """

    async def before_run_callback(self, *, invocation_context: RunContext) -> types.Content | None:
        """Runs when the message is stored; a returned value becomes the only event (PLG-5)."""

    async def on_event_callback(
        self, *, invocation_context: RunContext, event: Event
    ) -> Event | None:
        """Runs before a commit; a returned event replaces the event (PLG-6, `with_summaries`).

        Called for all events except the user's, and the responses that close open calls of a failed
        or cancelled run; also for a failed run's error event, and for the chunks of a streamed
        response (`event.partial`), which are shown and not committed. A complete event stays
        complete.
        """

    async def after_run_callback(self, *, invocation_context: RunContext) -> None:
        """Runs after a successful run (PLG-5)."""

    async def on_run_error_callback(
        self, *, invocation_context: RunContext, error: Exception
    ) -> None:
        """Runs after a failed run, for every plugin; the return value is ignored."""

    # ----- an agent

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Runs before an agent; a returned value becomes its event, and the agent is skipped."""

    async def after_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Runs after an agent; a returned value becomes one more event of the agent."""

    async def on_agent_error_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext, error: Exception
    ) -> None:
        """Runs after an agent has failed, for every plugin; the return value is ignored."""

    # ----- a model call

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Runs before a model call, and may change its request in place.

        A returned value replaces the model's response, and the model is not called.
        """

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Runs after a model response; a returned value replaces it."""

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Runs after a model call has finally failed; a returned value becomes its response."""

    # ----- a tool call; the parameters' names are not those of the agent's callbacks (TRAP-50)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Runs before a tool, and may change its arguments in place.

        A returned value, even an empty one, becomes the result, and the tool is not run.
        """

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Runs on the result of a tool or hook; a returned value, even if empty, replaces it."""

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: Exception,
    ) -> dict[str, Any] | None:
        """Runs after a tool has raised; a returned value, even an empty one, becomes the result."""

    async def close(self) -> None:
        """Release the plugin's resources; does nothing by default."""
