"""A plugin that logs everything an app does."""

from collections.abc import Sized
from typing import Any

from google.genai import types

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.context.activity import CallbackContext, ReadonlyContext, ToolContext
from durable_adk.errors import describe
from durable_adk.events.event import Event
from durable_adk.log import get_logger
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.plugins.run_context import RunContext
from durable_adk.tools.base_tool import BaseTool

_LOG = get_logger(__name__)
_MAX_TEXT = 300
"""Maximum characters of a content, of arguments or of a result."""


class LoggingPlugin(BasePlugin):
    """Logs each hook at level INFO, through `logging` (PLG-7).

    Logs names, ids, sizes and counts. Messages, responses and error texts, which often quote them,
    are logged only with `content`. A step that is retried after a crash is logged again.
    """

    def __init__(self, name: str = "logging_plugin", *, content: bool = False) -> None:
        """Set the name, and whether to log content.

        Args:
            name: The plugin's name.
            content: Also log the beginnings of messages, arguments, results and errors.
        """
        super().__init__(name)
        self._content = content

    # ----- a run

    async def on_user_message_callback(
        self, *, invocation_context: RunContext, user_message: types.Content
    ) -> None:
        """Log it."""
        self._log("run.message", invocation_context, **self._content_fields(user_message))

    async def before_run_callback(self, *, invocation_context: RunContext) -> None:
        """Log it."""
        self._log("run.started", invocation_context)

    async def on_event_callback(self, *, invocation_context: RunContext, event: Event) -> None:
        """Log it."""
        self._log(
            "run.event",
            invocation_context,
            event_id=event.id,
            author=event.author,
            calls=[call.name for call in event.get_function_calls()],
            responses=[response.name for response in event.get_function_responses()],
            final=event.is_final_response(),
            error=event.error_code,
            state_keys=sorted(event.actions.state_delta),
            artifacts=sorted(event.actions.artifact_delta),
            **self._content_fields(event.content),
        )

    async def after_run_callback(self, *, invocation_context: RunContext) -> None:
        """Log it."""
        self._log("run.finished", invocation_context)

    async def on_run_error_callback(
        self, *, invocation_context: RunContext, error: Exception
    ) -> None:
        """Log it."""
        self._log("run.failed", invocation_context, **self._failed(error))

    # ----- an agent

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> None:
        """Log it."""
        self._log("agent.started", callback_context, agent=agent.name)

    async def after_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> None:
        """Log it."""
        self._log("agent.finished", callback_context, agent=agent.name)

    async def on_agent_error_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext, error: Exception
    ) -> None:
        """Log it."""
        self._log("agent.failed", callback_context, agent=agent.name, **self._failed(error))

    # ----- a model call

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Log it."""
        config: Any = llm_request.config  # its union types refer to missing libraries
        self._log(
            "model.asked",
            callback_context,
            model=llm_request.model,
            contents=len(llm_request.contents),
            tools=sorted(llm_request.tools_dict),
            **self._value_fields("instruction", config.system_instruction),
        )

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Log it."""
        if llm_response.partial:
            return  # a chunk; the complete response is logged
        usage = llm_response.usage_metadata
        self._log(
            "model.answered",
            callback_context,
            finish_reason=llm_response.finish_reason,
            error=llm_response.error_code,
            input_tokens=usage and usage.prompt_token_count,
            output_tokens=usage and usage.candidates_token_count,
            **self._content_fields(llm_response.content),
        )

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Log it."""
        failed = self._failed(error)
        self._log("model.failed", callback_context, model=llm_request.model, **failed)

    # ----- a tool call

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Log it."""
        self._log_tool("tool.called", tool, tool_context, **self._value_fields("args", tool_args))

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> None:
        """Log it."""
        del tool_args
        self._log_tool("tool.answered", tool, tool_context, **self._value_fields("result", result))

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: Exception,
    ) -> None:
        """Log it."""
        del tool_args
        self._log_tool("tool.failed", tool, tool_context, **self._failed(error))

    # ----- descriptions of content and values

    def _log(self, what: str, context: ReadonlyContext, **values: Any) -> None:
        ids = {
            "plugin": self.name,
            "invocation": context.invocation_id,
            "session": context.session.id,
            "agent": context.agent_name,
        }
        _LOG.info(what, **ids | values)

    def _log_tool(self, what: str, tool: BaseTool, context: ToolContext, **values: Any) -> None:
        self._log(what, context, tool=tool.name, call=context.function_call_id, **values)

    def _failed(self, error: Exception) -> dict[str, Any]:
        kind, message = describe(error)
        return {"error": kind} | ({"error_message": message[:_MAX_TEXT]} if self._content else {})

    def _content_fields(self, content: types.Content | None) -> dict[str, Any]:
        """Return the sizes of a content and, with `content`, its text."""
        parts = (content.parts or []) if content else []
        text = "".join(part.text for part in parts if part.text)
        size = sum(len(part.inline_data.data or b"") for part in parts if part.inline_data)
        counts = {"parts": len(parts), "characters": len(text), "bytes": size}
        return counts | ({"text": text[:_MAX_TEXT]} if self._content else {})

    def _value_fields(self, name: str, value: Any) -> dict[str, Any]:
        """Return the size of a value and, with `content`, its beginning."""
        size = len(value) if isinstance(value, Sized) else int(value is not None)
        return {f"{name}_size": size} | ({name: str(value)[:_MAX_TEXT]} if self._content else {})
