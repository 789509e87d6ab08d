"""`AGUIToolset`: what a session's state declares as tools of a front end."""

from typing import Any

import pytest

from durable_adk.agents import InvocationContext
from durable_adk.agents.readonly_context import ReadonlyContext
from durable_adk.sessions import Session
from durable_adk.tools import AGUIToolset

PAINT = {"name": "paint", "description": "Paints.", "parameters": {"type": "object"}}


def context_of(declared: Any) -> ReadonlyContext:
    """A context of a session with these declarations in its state."""
    state = {"ag_ui_tools": declared}
    session = Session(id="s", app_name="app", user_id="u", state=state)
    return ReadonlyContext(InvocationContext(invocation_id="i", session=session))


async def test_what_a_front_end_declares_is_a_tool() -> None:
    """A description and parameters may be missing."""
    tools = await AGUIToolset().get_tools(context_of([PAINT, {"name": "look"}]))
    assert [(one.name, one.description) for one in tools] == [("paint", "Paints."), ("look", "")]


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("paint", "name"),
        ({"name": 7}, "name"),
        (PAINT | {"name": "transfer_to_agent"}, "name"),
        (PAINT | {"name": "adk_request_confirmation"}, "name"),
        (PAINT | {"description": []}, "description"),
        (PAINT | {"parameters": "none"}, "parameters"),
    ],
)
async def test_what_else_the_state_has_is_left_out(
    caplog: pytest.LogCaptureFixture, declared: Any, reason: str
) -> None:
    """No writer of the state gives the model a tool with a name of the runtime's."""
    tools = await AGUIToolset().get_tools(context_of([declared, PAINT]))
    assert [one.name for one in tools] == ["paint"]
    (record,) = caplog.records
    assert f"ag_ui_tools.{reason}" in record.__dict__["reason"]


async def test_a_state_without_a_list_has_no_tools() -> None:
    """A value of another type declares nothing."""
    assert await AGUIToolset().get_tools(context_of("paint")) == []
