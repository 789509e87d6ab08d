from google.adk.agents.callback_context import CallbackContext
from google.adk.tools.tool_context import ToolContext


def check_in(name: str, tool_context: ToolContext) -> str:
    """Checks a guest in."""
    tool_context.state["guest"] = name
    return f"{name} has room 12."


def menu(course: str) -> str:
    """Tells what there is to eat."""
    return {"soup": "leek soup"}.get(course, "nothing")


def count_guests(callback_context: CallbackContext) -> None:
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
