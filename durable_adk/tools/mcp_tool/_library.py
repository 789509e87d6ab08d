"""What is used here of the `mcp` library, 1.x or 2.x, or that it is not installed."""

from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from durable_adk.errors import AgentDefinitionError

try:
    import anyio
    from mcp import ClientSession, StdioServerParameters, stdio_client, types
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import (
        create_mcp_http_client,  # pyright: ignore[reportPrivateImportUsage]: the two versions have it only here in common
        streamable_http_client,
    )
    from mcp.shared import exceptions

    installed = True
except ImportError:
    if TYPE_CHECKING:
        raise
    # Whatever needs these is made by `McpToolset` or `McpTool`, which refuse to be made.
    installed = False
    anyio = types = exceptions = None
    stdio_client = sse_client = create_mcp_http_client = streamable_http_client = None
    ClientSession = object
    StdioServerParameters = Any

__all__ = [
    "Session",
    "StdioServerParameters",
    "create_mcp_http_client",
    "is_end",
    "protocol_error",
    "require",
    "says_tools_changed",
    "sse_client",
    "stdio_client",
    "streamable_http_client",
    "types",
    "wire",
]

ErrorClass: TypeAlias = type[Exception]
_CLOSED_CODE = -32000  # JSON-RPC's first code for implementations: both versions use it for this
_CLOSED_TEXTS = ("connection closed", "session terminated", "session not found")


def require() -> None:
    """Refuse what cannot work.

    Raises:
        AgentDefinitionError: The library is not installed.
    """
    if not installed:
        raise AgentDefinitionError(
            'MCP tools need the mcp library, which is an extra: pip install "durable-adk[mcp]"'
        )


class Session(ClientSession):
    """A client's session that passes on what a server returns, and asks it for nothing else.

    The library checks each result against the tool's output schema, and lists all tools again when
    it does not know that schema, so on every new connection. A result is for the model to read:
    one that misses its schema must not end the run.
    """

    async def validate_tool_result(self, name: str, result: "types.CallToolResult") -> None:
        """Accept every result; called so by version 2."""

    async def _validate_tool_result(self, name: str, result: Any) -> None:
        """Accept every result; called so by version 1."""


def protocol_error() -> ErrorClass:
    """The class of a server's JSON-RPC errors, and of the library's own in their place."""
    names = vars(exceptions)
    return names.get("MCPError") or names["McpError"]


def is_end(error: Exception) -> bool:
    """Whether an error says that the session, or the transport below it, has ended."""
    transport = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
    if not isinstance(error, protocol_error()):
        return isinstance(error, (*transport, ConnectionError))
    detail: Any = getattr(error, "error", None)
    text = str(error).lower()
    return getattr(detail, "code", None) == _CLOSED_CODE or text.startswith(_CLOSED_TEXTS)


def says_tools_changed(message: Any) -> bool:
    """Whether a message from the server announces another list of tools."""
    # Version 1 wraps notifications in a root model.
    return isinstance(getattr(message, "root", message), types.ToolListChangedNotification)


def wire(model: BaseModel) -> dict[str, Any]:
    """A value of the protocol as the JSON it travels as: the same with both versions."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
