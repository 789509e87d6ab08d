"""LongRunningFunctionTool: a function whose result comes later."""

import pytest

from durable_adk.errors import AgentDefinitionError
from durable_adk.tools.long_running_tool import LongRunningFunctionTool


def order(item: str) -> dict[str, str]:
    """Order something."""
    return {"status": "pending", "item": item}


def nothing() -> None: ...


def test_it_is_long_running_and_the_model_is_told():
    """TOL-20: flag, name and docstring, and a note not to call again; the declaration has it."""
    tool = LongRunningFunctionTool(order)
    assert tool.is_long_running
    assert tool.name == "order"
    assert tool.description.startswith("Order something.\n\n")
    assert "do not make the same call again" in tool.description
    assert tool.get_declaration().description == tool.description
    assert LongRunningFunctionTool(nothing).description.startswith("Note: ")


async def test_it_runs_as_a_function_does():
    """What the function returns is the preliminary result; None is none (TRAP-24)."""
    run = LongRunningFunctionTool(order).run_async
    assert await run(args={"item": "tea"}, tool_context=None) == {
        "status": "pending",
        "item": "tea",
    }
    assert "not present" in (await run(args={}, tool_context=None))["error"]
    assert await LongRunningFunctionTool(nothing).run_async(args={}, tool_context=None) is None


def test_the_deadline_tells_the_model_unless_told_otherwise():
    """The default policy is to tell; approving is refused, as nobody approves a result."""
    tool = LongRunningFunctionTool(order, name="buy", timeout=3, deadline=60)
    assert (tool.name, tool.timeout, tool.deadline, tool.on_deadline) == ("buy", 3, 60, "tell")
    assert LongRunningFunctionTool(order, on_deadline="fail").on_deadline == "fail"
    with pytest.raises(AgentDefinitionError, match="approve"):
        LongRunningFunctionTool(order, on_deadline="approve")
