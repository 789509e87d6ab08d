"""The tool that hands a conversation over."""

from types import SimpleNamespace
from typing import Any

from durable_adk.events import EventActions
from durable_adk.tools import TransferToAgentTool, transfer_to_agent


def context() -> Any:
    """What a tool context has to do with transfers."""
    return SimpleNamespace(actions=EventActions())


async def test_the_reason_is_asked_for_if_wanted_and_kept() -> None:
    """TOL-23: as in ADK, in the actions of the response's event; by default nobody is asked."""
    plain, reasoned = (TransferToAgentTool(["a"], asks) for asks in (False, True))
    declared = [tool.get_declaration().parameters_json_schema for tool in (plain, reasoned)]  # pyright: ignore[reportOptionalMemberAccess]: both have one
    assert [set(each["properties"]) for each in declared] == [
        {"agent_name"},
        {"agent_name", "transfer_reason"},
    ]
    here = context()
    args = {"agent_name": "a", "transfer_reason": "knows more"}
    assert await reasoned.run_async(args=args, tool_context=here) is None
    assert (here.actions.transfer_to_agent, here.actions.transfer_reason) == ("a", "knows more")


def test_the_function_transfers_too() -> None:
    """TOL-23: a tool of one's own may call it."""
    here = context()
    transfer_to_agent("b", here)
    assert (here.actions.transfer_to_agent, here.actions.transfer_reason) == ("b", None)
