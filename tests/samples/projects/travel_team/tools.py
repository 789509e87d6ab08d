from typing import Literal, Optional

from google.adk.tools import ToolContext


def say_hello(name: Optional[str] = None) -> str:
    """Greets, by name if it is known."""
    return f"Hello, {name}!" if name else "Hello there!"


def say_goodbye() -> str:
    """Says goodbye."""
    return "Goodbye!"


def book_flight(
    city: str, tool_context: ToolContext, seat: Literal["window", "aisle"] = "window"
) -> dict:
    """Books a flight to a city."""
    tool_context.state["seat_class"] = "economy"
    tool_context.state["user:cities"] = [*tool_context.state.get("user:cities", []), city]
    return {"status": "success", "report": f"A {seat} seat to {city} is booked."}
