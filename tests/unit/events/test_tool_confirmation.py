"""Decisions on tool calls."""

import pytest

from durable_adk.tools.tool_confirmation import ToolConfirmation


@pytest.mark.parametrize(
    "response",
    [{"confirmed": True, "payload": 1}, {"response": '{"confirmed": true, "payload": 1}'}],
)
def test_both_forms_of_a_response_are_read(response: dict[str, object]) -> None:
    """TOL-62: plain, and as ADK's web client wraps it."""
    assert ToolConfirmation.from_response_dict(response) == ToolConfirmation(
        confirmed=True, payload=1
    )
