"""What a tool says about being run more than once."""

from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.errors import AgentDefinitionError
from durable_adk.tools import FunctionTool, LongRunningFunctionTool, RetryConfig, ToolContract
from durable_adk.tools.reconcile import LOST, unknown_outcome


def charge(amount: int) -> int:
    """Charge the card."""
    return amount


def find(args: dict[str, Any], tool_context: Any) -> None:
    """Look for a charge."""


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("contract", {"contract": "sometimes"}),
        ("retry", {"retry": RetryConfig()}),
        ("retry", {"retry": RetryConfig(), "contract": "at_most_once"}),
        ("task_queue", {"task_queue": " "}),
        ("reconcile", {"reconcile": find}),
        ("reconcile", {"reconcile": "find", "contract": "at_most_once"}),
        ("timeout", {"timeout": 0}),
    ],
)
def test_what_does_not_fit_is_refused_by_name(field: str, options: dict[str, Any]) -> None:
    """Each error names the tool and the option."""
    with pytest.raises(AgentDefinitionError, match=rf"{field} of tool 'charge'"):
        FunctionTool(charge, **options)


def test_a_tool_runs_at_least_once_unless_it_says_otherwise() -> None:
    """D11: the default, and names are as good as members."""
    assert FunctionTool(charge).contract is ToolContract.AT_LEAST_ONCE
    assert FunctionTool(charge, contract="pure").contract is ToolContract.PURE
    tool = LongRunningFunctionTool(charge, contract="at_most_once", reconcile=find)
    assert tool.contract is ToolContract.AT_MOST_ONCE


def test_only_what_differs_from_the_default_is_recorded() -> None:
    """D6: the manifest, and so the history, has nothing of a plain tool."""
    retry = RetryConfig(exceptions=[TimeoutError])
    tools = [
        charge,
        FunctionTool(charge, name="said", contract="at_least_once"),
        FunctionTool(charge, name="once", contract="at_most_once", task_queue="bank"),
        FunctionTool(charge, name="again", contract="pure", retry=retry),
    ]
    node = LlmAgent(name="a", tools=tools).node()
    assert set(node.tools) == {"once", "again"}
    recorded = type(node).from_json(node.to_json())
    assert recorded == node
    assert node.tools["once"].task_queue == "bank"
    assert node.tools["again"].retry == retry


def test_an_unknown_outcome_is_said_plainly() -> None:
    """I8: the model reads that it may or may not have happened."""
    response = unknown_outcome("charge", LOST)
    assert response["outcome"] == "unknown"
    assert "may have taken effect" in response["error"]
    assert "'charge'" in response["error"]


async def test_a_call_that_is_refused_is_refused_without_running() -> None:
    """What an at-most-once tool is asked first; a call that fits is not refused."""
    tool = FunctionTool(charge, require_confirmation=False)
    assert "amount" in (await tool.refused(args={}, tool_context=None))["error"]
    assert "amount" in (await tool.refused(args={"amount": "x"}, tool_context=None))["error"]
    assert await tool.refused(args={"amount": 1}, tool_context=None) is None
