"""Tools: the interface `BaseTool`, `FunctionTool`, and the tools that come with the package.

Tools of MCP servers are imported when they are used: importing the mcp library takes as long as
importing all of this package.
"""

from importlib import import_module
from typing import Any

from durable_adk.auth.auth_tool import AuthToolArguments
from durable_adk.tools._provider_tools import (
    enterprise_web_search_tool as enterprise_web_search,
    google_maps_grounding,
    google_search,
    url_context,
)
from durable_adk.tools._request_input_tool import request_input
from durable_adk.tools.activity_tool import ActivityTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.agui_toolset import AGUIToolset
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset
from durable_adk.tools.example_tool import ExampleTool
from durable_adk.tools.exit_loop_tool import exit_loop
from durable_adk.tools.function_tool import FunctionTool, as_tool
from durable_adk.tools.get_user_choice_tool import get_user_choice_tool as get_user_choice
from durable_adk.tools.load_artifacts_tool import load_artifacts_tool as load_artifacts
from durable_adk.tools.load_memory_tool import load_memory_tool as load_memory
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.tools.preload_memory_tool import preload_memory_tool as preload_memory
from durable_adk.tools.tool_context import ToolContext
from durable_adk.tools.transfer_to_agent_tool import TransferToAgentTool, transfer_to_agent
from durable_adk.wire.tool_contract import RetryConfig, ToolContract

__all__ = [
    "AGUIToolset",
    "ActivityTool",
    "AgentTool",
    "AuthToolArguments",
    "BaseTool",
    "BaseToolset",
    "ExampleTool",
    "FunctionTool",
    "LongRunningFunctionTool",
    "RetryConfig",
    "ToolContext",
    "ToolContract",
    "TransferToAgentTool",
    "as_tool",
    "enterprise_web_search",
    "exit_loop",
    "get_user_choice",
    "google_maps_grounding",
    "google_search",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "request_input",
    "transfer_to_agent",
    "url_context",
]


def __getattr__(name: str) -> Any:
    if name in ("MCPToolset", "McpToolset"):
        return import_module("durable_adk.tools.mcp_tool").McpToolset
    raise AttributeError(f"module 'durable_adk.tools' has no attribute {name!r}")
