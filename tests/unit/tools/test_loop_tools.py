"""Tools that speak to the loop through the actions of their event."""

from types import SimpleNamespace

import pytest

from durable_adk.events import EventActions
from durable_adk.tools import (
    FunctionTool,
    TransferToAgentTool,
    exit_loop,
    get_user_choice,
    transfer_to_agent,
)


@pytest.fixture
def context() -> SimpleNamespace:
    """As much of a tool's context as the tools use."""
    return SimpleNamespace(actions=EventActions(), tool_confirmation=None)


async def test_exit_loop_ends_loop_and_agent(context: SimpleNamespace) -> None:
    """TOL-22: it escalates, and the agent does not ask its model again."""
    tool = FunctionTool(exit_loop)
    assert await tool.run_async(args={}, tool_context=context) is None
    assert context.actions.escalate
    assert context.actions.skip_summarization
    assert tool.get_declaration().parameters_json_schema is None


async def test_get_user_choice_waits_for_the_user(context: SimpleNamespace) -> None:
    """TOL-24: long-running, nothing to summarise, no result of its own."""
    assert get_user_choice.is_long_running
    assert get_user_choice.name == "get_user_choice"
    schema = get_user_choice.get_declaration().parameters_json_schema
    assert schema["properties"] == {"options": {"type": "array", "items": {"type": "string"}}}
    assert await get_user_choice.run_async(args={"options": ["a"]}, tool_context=context) is None
    assert context.actions.skip_summarization


async def test_a_transfer_names_the_agent(context: SimpleNamespace) -> None:
    """TOL-23: both forms ask the loop for the same hand-over."""
    tool = FunctionTool(transfer_to_agent)
    await tool.run_async(args={"agent_name": "other"}, tool_context=context)
    assert context.actions.transfer_to_agent == "other"
    await TransferToAgentTool(["a"]).run_async(args={"agent_name": "a"}, tool_context=context)
    assert context.actions.transfer_to_agent == "a"


def test_a_transfer_tool_names_the_choices() -> None:
    """AGT-53: the agents are an enum in the schema."""
    schema = TransferToAgentTool(["a", "b"]).get_declaration().parameters_json_schema
    assert schema["properties"]["agent_name"]["enum"] == ["a", "b"]
