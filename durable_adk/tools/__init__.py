"""Tools, and the port to them."""

from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.function_tool import FunctionTool, as_tool

__all__ = ["BaseTool", "FunctionTool", "as_tool"]
