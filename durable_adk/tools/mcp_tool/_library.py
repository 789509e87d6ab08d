"""Optional import of the `mcp` library."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from durable_adk.extras import Absent

try:
    import anyio
    from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client, types
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
except ImportError:
    if TYPE_CHECKING:
        raise
    anyio = types = stdio_client = sse_client = streamable_http_client = Absent
    ClientSession = MCPError = create_mcp_http_client = Absent
    StdioServerParameters = Any  # an annotation only: the toolset raises before it is used

__all__ = [
    "MCPError",
    "McpClientSession",
    "StdioServerParameters",
    "create_mcp_http_client",
    "is_end",
    "sse_client",
    "stdio_client",
    "streamable_http_client",
    "types",
    "wire",
]

_ENDED = ("session terminated", "session not found")


class McpClientSession(ClientSession):
    """A client session that returns results unchecked.

    The library checks each result against the tool's output schema. On every new connection it does
    not know that schema yet, and lists all tools again. Results are for the model to read: one that
    violates its schema must not end the run.
    """

    async def validate_tool_result(self, name: str, result: "types.CallToolResult") -> None:
        """Accept every result."""


def is_end(error: Exception) -> bool:
    """Whether an error means that the session, or its transport, has ended."""
    if isinstance(error, MCPError):
        return error.code == types.CONNECTION_CLOSED or error.message.lower().startswith(_ENDED)
    transport = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
    return isinstance(error, (*transport, ConnectionError))


def wire(model: BaseModel) -> dict[str, Any]:
    """Return a protocol value as the JSON that is transmitted."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
