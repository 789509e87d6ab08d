"""`ToolContext` at the path ADK gives it."""

from durable_adk.context.activity import ToolContext

__all__ = ["ToolContext"]
