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
"""Every hook a plugin may define."""
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


def check_answer(hook: HookName, answer: Any, who: str) -> None:
    """Check the type of a hook's answer; the hooks of tools may answer with any value.

    Args:
        hook: The hook.
        answer: What it returned; None is no answer.
        who: The plugin or the function, for the error.

    Raises:
        CallbackError: The answer has another type than the hook's.
    """
    expected = _ANSWERS.get(hook, object)
    if answer is not None and not isinstance(answer, expected):
        raise CallbackError(
            f"{who} answered {hook} with {type(answer).__name__}; return {expected.__name__} or "
            "None."
        )


class BasePlugin:
    """Hooks round all agents, models and tools of an app (PLG-1, PLG-2).

    Override the hooks you need; each is called with keywords, may be sync or async, and may do any
    I/O. Returning None means: go on. What another answer means stands at each hook. Hooks see an
    invocation's plugins in their order on the app, before the agent's own callbacks; the first
    answer ends the round (PLG-3).

    A hook runs in whatever worker runs the step, and again when a step is tried again after a
    crash. So one instance serves many invocations at once and may be gone before the next hook:
    keep what a hook is to remember in the context's state (`temp:` keys last as long as the
    invocation), never in attributes.
    """

    def __init__(self, name: str) -> None:
        """Name the plugin; names are unique within an app."""
        self.name = name

    def hooks(self) -> frozenset[HookName]:
        """The hooks that the plugin defines; nothing is scheduled for the others."""
        return frozenset(hook for hook in HOOKS if self._defines(hook))

    def _defines(self, hook: HookName) -> bool:
        # Not a plain method of the base: an override, or something put on the instance.
        method: Any = getattr(self, hook)
        return getattr(method, "__func__", None) is not getattr(BasePlugin, hook)

    # ----- a run

    async def on_user_message_callback(
        self, *, invocation_context: RunContext, user_message: types.Content
    ) -> types.Content | None:
        """A message has come in and is not stored yet; an answer is stored in its place.

        A user's answer to a call that waits is such a message, too (RUN-26).
        """

    async def before_run_callback(self, *, invocation_context: RunContext) -> types.Content | None:
        """The message is stored; an answer becomes the run's only event (PLG-5)."""

    async def on_event_callback(
        self, *, invocation_context: RunContext, event: Event
    ) -> Event | None:
        """An event is about to be committed; an answer replaces it (PLG-6, `with_summaries`).

        Any event but a user's, and but the responses that close the open calls of a run which has
        failed or was cancelled. Also the error event of a failed run, and the chunks of a streamed
        answer (`event.partial`), which are shown and not committed. A whole event stays whole.
        """

    async def after_run_callback(self, *, invocation_context: RunContext) -> None:
        """The run has succeeded (PLG-5)."""

    async def on_run_error_callback(
        self, *, invocation_context: RunContext, error: Exception
    ) -> None:
        """The run has failed; a notice, which every plugin gets and none can answer."""

    # ----- an agent

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """An agent is about to run; an answer is its event, and the agent is skipped."""

    async def after_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """An agent has run; an answer is one more event of it."""

    async def on_agent_error_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext, error: Exception
    ) -> None:
        """An agent has failed; a notice, which every plugin gets and none can answer."""

    # ----- a model call

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """A model is about to be asked, with a request that may be changed in place.

        An answer stands for the model's, which is not asked.
        """

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """A model has answered; an answer replaces the model's."""

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """A model call has failed for good; an answer stands for the model's."""

    # ----- a tool call; the parameters' names are not those of the agent's callbacks (TRAP-50)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """A tool is about to run, with arguments that may be changed in place.

        An answer, be it empty, stands for the tool's result.
        """

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """There is a result, of the tool or of a hook; an answer, be it empty, replaces it."""

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: Exception,
    ) -> dict[str, Any] | None:
        """A tool has raised; an answer, be it empty, is the result instead."""

    async def close(self) -> None:
        """Let go of what the plugin holds open; nothing, unless a subclass says otherwise."""
