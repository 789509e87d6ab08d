"""A tool of an MCP server."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from google.genai import types
from pydantic import ValidationError

from durable_adk.calling import call
from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import ReadonlyContext, ToolContext
from durable_adk.errors import CallerError
from durable_adk.json_values import check_json
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.mcp_tool import _library
from durable_adk.tools.mcp_tool._connection import McpConnectionError
from durable_adk.tools.mcp_tool.mcp_session_manager import MCPSessionManager
from durable_adk.tools.require_confirmation import (
    CONTEXT,
    ConfirmationRule,
    confirmation_refusal,
    is_required,
)
from durable_adk.wire.messages import MAX_BYTES, check_size

HeaderProvider: TypeAlias = Callable[[ReadonlyContext], dict[str, str] | Awaitable[dict[str, str]]]
IDEMPOTENCY_KEY = "durable-adk/idempotencyKey"
"""Key of `ToolContext.idempotency_key` in the `_meta` of a call."""
MAX_RESULT_BYTES = MAX_BYTES - 10_000
"""Maximum bytes of a result, which leaves room for the rest of its event."""


class McpTool(BaseTool):
    """Calls a server's tool by its name on the server (TOL-29).

    A call may reach the server twice: after a worker crash, and if the connection is lost before
    the result arrives. Both calls carry the same idempotency key in `_meta`.
    """

    confirms_itself = True

    def __init__(
        self,
        *,
        mcp_tool: "_library.types.Tool",
        mcp_session_manager: MCPSessionManager,
        require_confirmation: ConfirmationRule = False,
        header_provider: HeaderProvider | None = None,
    ) -> None:
        """Adopt the server's description of the tool.

        Args:
            mcp_tool: The server's description of the tool.
            mcp_session_manager: The sessions with the server.
            require_confirmation: Whether a user must confirm calls (TOL-60): all calls, or those
                for which a function of the arguments returns True.
            header_provider: Creates headers for a call's HTTP requests.
        """
        super().__init__(name=mcp_tool.name, description=mcp_tool.description or "")
        self.require_confirmation = require_confirmation
        self._mcp_tool = mcp_tool
        self._sessions = mcp_session_manager
        self._header_provider = header_provider

    @property
    def reads_confirmation(self) -> bool:
        """See `BaseTool.reads_confirmation`; false, because the server cannot read it."""
        return False

    @property
    def raw_mcp_tool(self) -> "_library.types.Tool":
        """The server's description of the tool; each caller gets a copy."""
        return own_copy(self._mcp_tool)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=own_copy(self._mcp_tool.input_schema),
        )

    async def check_require_confirmation(
        self, args: dict[str, Any], tool_context: ToolContext
    ) -> bool:
        """Whether `require_confirmation` applies to the call."""
        return await is_required(self.require_confirmation, {**args, CONTEXT: tool_context})

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Call the tool.

        Returns:
            ``{"content": [...], "structuredContent": {...}, "isError": False}`` as the server sent
            it, the second only if present; or ``{"error": text}`` if the tool failed, the server
            rejected the call or is unreachable, its result cannot be stored, or the call is not
            confirmed yet or was rejected. Further details of a failure are next to `error`:
                `content`
            without the texts, `structuredContent`, `_meta`, or `data` of a rejection.
        """
        if confirmation_refusal := await self._unconfirmed(args, tool_context):
            return {"error": confirmation_refusal}
        headers = await provided_headers(self._header_provider, tool_context)
        meta: Any = {IDEMPOTENCY_KEY: tool_context.idempotency_key}
        try:
            result = await self._sessions.call(
                lambda session: session.call_tool(self._mcp_tool.name, args, meta=meta),
                headers=headers,
            )
        except (McpConnectionError, ValidationError, _library.MCPError) as error:
            data = {"data": found} if (found := getattr(error, "data", None)) is not None else {}
            return _storable(
                self.name, {"error": f"The MCP tool {self.name} failed: {error}", **data}
            )
        return _storable(self.name, _response(_library.wire(result)))

    async def _unconfirmed(self, args: dict[str, Any], tool_context: ToolContext) -> str | None:
        """Request a confirmation if needed; return why the call may not run yet, or None."""
        if self.require_confirmation is False:
            return None
        return await confirmation_refusal(self, args, tool_context)


async def provided_headers(
    provider: HeaderProvider | None, context: ReadonlyContext | None
) -> dict[str, str]:
    """Return the provider's headers; none without a provider or a context."""
    return await call(provider, context) if provider and context else {}


def _response(result: dict[str, Any]) -> dict[str, Any]:
    content = cast("list[dict[str, Any]]", result.get("content", []))
    known = {key: result[key] for key in ("structuredContent", "_meta") if key in result}
    if not result.get("isError"):
        return {"content": content, **known, "isError": False}
    texts = [item["text"] for item in content if item.get("type") == "text"]
    others = [item for item in content if item.get("type") != "text"]
    default_message = (
        "The tool failed." if others or known else "The tool failed and does not say why."
    )
    return {
        "error": "\n".join(texts) or default_message,
        **({"content": others} if others else {}),
        **known,
    }


def _storable(name: str, response: dict[str, Any]) -> dict[str, Any]:
    """Return the response, or an error if it cannot be stored, so that the run continues.

    A failure whose details cannot be stored keeps its error text.
    """
    what = f"The result of the MCP tool {name}"
    try:
        check_json(response, what)
        check_size(json.dumps(response, ensure_ascii=False), what, MAX_RESULT_BYTES)
    except CallerError as error:
        if response.keys() > {"error"}:
            return _storable(name, {"error": response["error"]})
        return {"error": error.message}
    return response


MCPTool = McpTool
"""ADK's older name."""
