from __future__ import annotations

from typing import Any, Optional

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types


class AuditPlugin(BasePlugin):
    """Keeps secrets out of conversations, and says what tools do."""

    def __init__(self, secrets: list[str], name: str = "acme_audit") -> None:
        super().__init__(name)
        self._secrets = secrets

    def _hidden(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> Optional[types.Content]:
        parts = [types.Part(text=self._hidden(part.text or "")) for part in user_message.parts or []]
        return types.Content(role="user", parts=parts)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> Optional[dict]:
        tool_context.state["audit:last_tool"] = tool.name
        return {"refused": "It is locked."} if tool_args.get("ticket") == 13 else None

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> Optional[LlmResponse]:
        text = llm_response.content and llm_response.content.parts[0].text
        if not text or self._hidden(text) == text:
            return None
        return LlmResponse(content=types.ModelContent(self._hidden(text)))

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext,
        error: Exception,
    ) -> Optional[dict]:
        return {"failed": f"{tool.name}: {type(error).__name__}: {error}"}

    async def on_event_callback(
        self, *, invocation_context: InvocationContext, event: Event
    ) -> Optional[Event]:
        if event.get_function_calls():
            return None
        event.custom_metadata = {"audited": True}
        return event
