"""A no stands, whatever the tool says by the time it is given."""

from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.tools import AgentTool, BaseTool, FunctionTool, ToolContext
from tests.support.scripts import USER, call, send

REJECTED = {"error": "This tool call is rejected."}


class Ledger:
    """What was paid, and the tool that pays."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"


class Plain(BaseTool):
    """A tool that knows nothing of confirmations."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(name="pay", description="Pay.")
        self._ledger = ledger

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return self._ledger.pay(**args)


def helper(ledger: Ledger) -> BaseTool:
    """An agent that takes the tool's name, and pays whatever it is asked."""
    agent = LlmAgent(name="pay", model=ScriptedModel(replies=lambda _: ledger.pay(1) and "paid"))
    return AgentTool(agent)


AFTER: dict[str, Callable[[Ledger], Any]] = {
    "no requirement": lambda ledger: FunctionTool(ledger.pay),
    "a predicate that says no": lambda ledger: FunctionTool(
        ledger.pay, require_confirmation=lambda: False
    ),
    "another class": Plain,
    "an agent": helper,
}


@pytest.mark.parametrize(
    ("after", "confirmed"), [*((name, False) for name in AFTER), ("no requirement", True)]
)
async def test_a_call_that_was_denied_does_not_run(after: str, confirmed: bool) -> None:
    """I16, S11: the runtime asked, so its answer counts though a deploy dropped the requirement."""
    ledger = Ledger()
    asking = FunctionTool(ledger.pay, require_confirmation=True)
    model = ScriptedModel(replies=[call("pay", amount=1), "done"])
    agent = LlmAgent(name="payer", model=model, tools=[asking])
    async with InMemoryRunner(agent) as runner:
        await send(runner)
        (waiting,) = await runner.pending(**USER)
        agent.tools = [AFTER[after](ledger)]
        answer = types.FunctionResponse(
            id=waiting.call_id, name=waiting.name, response={"confirmed": confirmed}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        events = [event async for event in runner.run_async(**USER, new_message=message)]
    (response,) = (r for event in events for r in event.get_function_responses() if r.name == "pay")
    assert ledger.paid == ([1] if confirmed else [])
    assert (response.response == REJECTED) is not confirmed


async def test_a_tool_that_asks_for_itself_reads_the_decision() -> None:
    """TOL-60: what a no means to it is its own matter."""
    read: list[bool] = []

    def book(tool_context: ToolContext) -> str:
        """Book."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Book the large room?")
            return "asked"
        read.append(tool_context.tool_confirmation.confirmed)
        return "booked the small room"

    agent = LlmAgent(name="a", model=ScriptedModel(replies=[call("book"), "done"]), tools=[book])
    async with InMemoryRunner(agent) as runner:
        await send(runner)
        (waiting,) = await runner.pending(**USER)
        answer = types.FunctionResponse(
            id=waiting.call_id, name=waiting.name, response={"confirmed": False}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        async for _ in runner.run_async(**USER, new_message=message):
            pass
    assert read == [False]
