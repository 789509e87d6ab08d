"""`ToolContext` at the path ADK gives it."""

from durable_adk.context import ToolContext

__all__ = ["ToolContext"]
