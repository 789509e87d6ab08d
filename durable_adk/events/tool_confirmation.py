"""The question whether a tool may run, and the answer to it."""

from typing import Any

from pydantic import StrictBool

from durable_adk.json_model import JsonModel


class ToolConfirmation(JsonModel):
    """Asked with `confirmed` False, answered with what was decided (semantics TOL-61, TOL-62)."""

    hint: str = ""
    """What the one who decides is told."""
    confirmed: StrictBool = False
    """Only true is a yes: "yes", 1 and "true" are refused."""
    payload: Any = None
    """JSON: what the tool asks to be filled in, and what was."""
