"""`AGUIToolset`: what a session's state declares as tools of a front end."""

from typing import Any

import pytest

from durable_adk.agents import InvocationContext
from durable_adk.agents.readonly_context import ReadonlyContext
from durable_adk.errors import InvalidRequestError
from durable_adk.sessions import Session
from durable_adk.tools import AGUIToolset

PAINT = {"name": "paint", "description": "Paints.", "parameters": {"type": "object"}}


def context_of(declared: Any) -> ReadonlyContext:
    """A context of a session whose state was written by whoever may."""
    state = {"ag_ui_tools": declared}
    session = Session(id="s", app_name="app", user_id="u", state=state)
    return ReadonlyContext(InvocationContext(invocation_id="i", session=session))


async def test_what_a_front_end_declares_is_a_tool() -> None:
    """A description and parameters may be missing."""
    tools = await AGUIToolset().get_tools(context_of([PAINT, {"name": "look"}]))
    assert [(one.name, one.description) for one in tools] == [("paint", "Paints."), ("look", "")]


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        ("paint", "ag_ui_tools: It must be a list"),
        (["paint"], r"ag_ui_tools\[0\]\.name"),
        ([PAINT, {"name": 7}], r"ag_ui_tools\[1\]\.name"),
        ([PAINT | {"name": "transfer_to_agent"}], r"ag_ui_tools\[0\]\.name"),
        ([PAINT | {"name": "adk_request_confirmation"}], r"ag_ui_tools\[0\]\.name"),
        ([PAINT | {"description": []}], r"ag_ui_tools\[0\]\.description"),
        ([PAINT | {"parameters": "none"}], r"ag_ui_tools\[0\]\.parameters"),
    ],
)
async def test_what_else_the_state_has_is_refused(declared: Any, place: str) -> None:
    """Whoever writes to the state gives the model no tool with a name of the runtime's."""
    with pytest.raises(InvalidRequestError, match=place):
        await AGUIToolset().get_tools(context_of(declared))
