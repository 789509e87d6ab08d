"""`ToolConfirmation` at the path ADK gives it."""

from durable_adk.events.tool_confirmation import ToolConfirmation

__all__ = ["ToolConfirmation"]
