"""Tools of MCP servers; needs the extra ``mcp``."""

from durable_adk.tools.mcp_tool.mcp_session_manager import (
    MCPSessionManager,
    SseConnectionParams,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from durable_adk.tools.mcp_tool.mcp_tool import MCPTool, McpTool
from durable_adk.tools.mcp_tool.mcp_toolset import MCPToolset, McpToolset

__all__ = [
    "MCPSessionManager",
    "MCPTool",
    "MCPToolset",
    "McpTool",
    "McpToolset",
    "SseConnectionParams",
    "StdioConnectionParams",
    "StreamableHTTPConnectionParams",
]
