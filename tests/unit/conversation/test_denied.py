"""A no counts, whatever the tool says by the time it arrives."""

from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types

from durable_adk.activities.tool import tool_call
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.client_requests import (
    REQUEST_CONFIRMATION,
    confirmation_metadata,
    confirmation_request,
    is_denied,
)
from durable_adk.events import EventActions
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import InMemoryRunner
from durable_adk.tools import AgentTool, BaseTool, FunctionTool, ToolContext, require_confirmation
from durable_adk.tools.require_confirmation import NOT_AS_SHOWN, runtime_hint
from tests.support.pausing import answer as answered, calls, responses
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


class Wrapped(BaseTool):
    """A tool that runs another one under its own name."""

    def __init__(self, inner: FunctionTool) -> None:
        super().__init__(name="pay", description="Pay.")
        self._inner = inner

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return await self._inner.run_async(args=args, tool_context=tool_context)


class Guard(BasePlugin):
    """Asks before the tool runs; the tool decides what to do with the answer."""

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Ask once."""
        del tool, tool_args
        return guard(tool_context)


def guard(context: ToolContext) -> dict[str, Any] | None:
    """Ask once, unless somebody has decided."""
    if context.tool_confirmation is not None:
        return None
    context.request_confirmation(hint="May it pay?")
    return {"status": "asked"}


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


def asking(ledger: Ledger) -> Callable[..., Any]:
    """A function that asks for itself, and then pays."""

    def pay(amount: int, tool_context: ToolContext) -> Any:
        """Pay."""
        return guard(tool_context) or ledger.pay(amount)

    return pay


def other(ledger: Ledger) -> Callable[..., Any]:
    """The payment under another name."""

    def charge(amount: int) -> str:
        """Charge."""
        return ledger.pay(amount)

    return charge


def quote(amount: int) -> str:
    """Pay nothing yet."""
    return f"{amount} it will be"


BEFORE: dict[str, Callable[[Ledger], dict[str, Any]]] = {
    "a plugin": lambda ledger: {"tools": [ledger.pay], "plugins": [Guard(name="guard")]},
    "a callback": lambda ledger: {
        "tools": [ledger.pay],
        "before_tool_callback": lambda tool, args, tool_context: guard(tool_context),
    },
    "a callback after the tool": lambda _: {
        "tools": [FunctionTool(quote, name="pay")],
        "after_tool_callback": lambda tool, args, tool_context, tool_response: guard(tool_context),
    },
    "the function": lambda ledger: {"tools": [asking(ledger)]},
    "the requirement": lambda ledger: {
        "tools": [FunctionTool(ledger.pay, require_confirmation=True)]
    },
    "a wrapped requirement": lambda ledger: {
        "tools": [Wrapped(FunctionTool(other(ledger), require_confirmation=True))]
    },
    "a wrapped function": lambda ledger: {"tools": [Wrapped(FunctionTool(asking(ledger)))]},
}
AFTER["wrapped"] = lambda ledger: Wrapped(FunctionTool(other(ledger)))
READS = {"another class"}
"""Tools that are given the decision; what their own code asked is theirs to read."""


async def decided(ledger: Ledger, before: str, after: str, *, confirmed: bool) -> Any:
    """The response to a call that one version of the tool asked for, and another one runs."""
    options = BEFORE[before](ledger)
    plugins = options.pop("plugins", [])
    model = ScriptedModel(replies=[call("pay", amount=1), "done"])
    agent = LlmAgent(name="payer", model=model, **options)
    async with InMemoryRunner(app=App(name="a", root_agent=agent, plugins=plugins)) as runner:
        await send(runner)
        (waiting,) = await runner.pending(**USER)
        agent.tools = [AFTER[after](ledger)]
        answer = types.FunctionResponse(
            id=waiting.call_id, name=waiting.name, response={"confirmed": confirmed}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        events = [event async for event in runner.run_async(**USER, new_message=message)]
    (response,) = (r for event in events for r in event.get_function_responses() if r.name == "pay")
    return response.response


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
async def test_a_no_stands_whoever_asked(before: str, after: str) -> None:
    """I16: a plugin, a callback, the tool or one that it runs; a deploy drops what heeds it."""
    if before in {"the function", "a wrapped function"} and after in READS:
        pytest.skip("such a tool reads the decision itself")
    ledger = Ledger()
    assert await decided(ledger, before, after, confirmed=False) == REJECTED
    assert ledger.paid == []


@pytest.mark.parametrize("before", BEFORE)
async def test_a_yes_stands_whoever_asked(before: str) -> None:
    """TOL-63: the call runs, and once, as it was approved."""
    ledger = Ledger()
    assert await decided(ledger, before, "no requirement", confirmed=True) == {"result": "paid"}
    assert ledger.paid == [1]


async def test_an_approval_is_for_the_arguments_that_were_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I16: a call that has others by now, whatever has changed them, does not run."""
    ledger, find = Ledger(), tool_call._find_call
    calls: list[types.FunctionCall] = []

    def found(scope: StepScope, call_id: str) -> types.FunctionCall:
        again = {"args": {"amount": 2}} if calls else {}
        calls.append(find(scope, call_id).model_copy(update=again))
        return calls[-1]

    monkeypatch.setattr(tool_call, "_find_call", found)
    response = await decided(ledger, "the requirement", "no requirement", confirmed=True)
    assert (response, ledger.paid) == ({"error": NOT_AS_SHOWN}, [])
    assert len(calls) == 2


async def test_another_hint_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """I16: who asked is recorded, so the next release may ask in other words."""
    ledger = Ledger()
    monkeypatch.setattr(require_confirmation, "runtime_hint", lambda name: f"May {name} run?")
    denied = await decided(ledger, "the requirement", "another class", confirmed=False)
    assert (denied, ledger.paid) == (REJECTED, [])
    assert ledger.paid == []


@pytest.mark.parametrize(
    ("hint", "can_read", "denied"),
    [
        (runtime_hint("pay"), True, True),
        (runtime_hint("pay"), False, True),
        ("May it pay?", True, False),
        ("May it pay?", False, True),
    ],
)
def test_a_history_that_does_not_record_who_asked(hint: str, can_read: bool, denied: bool) -> None:
    """OPEN-6: the hint tells the runtime's requests; others are for tools that can read the no."""
    turn = calls("i.1", ("c", "pay", {}))
    asked = EventActions(requested_tool_confirmations={"c": {"hint": hint}})
    done = responses("i.2", answered("c", "pay", {"status": "asked"}), actions=asked)
    request = confirmation_request(turn, done, event_id="i.3")
    assert request
    (asks,) = request.get_function_calls()
    no = responses("i.4", answered(asks.id, REQUEST_CONFIRMATION, {"confirmed": False}))
    history = [turn, done, request, no]
    assert is_denied(history, asks.id, "c", can_read=can_read) is denied


def test_what_a_client_writes_does_not_say_who_asked() -> None:
    """S3: a run's own metadata is on its events, but only the response that asks is believed."""
    forged = {"custom_metadata": confirmation_metadata("c", "tool")}
    turn = calls("i.1", ("c", "pay", {}))
    asked = EventActions(requested_tool_confirmations={"c": {"hint": runtime_hint("pay")}})
    done = responses("i.2", answered("c", "pay", {"status": "asked"}), actions=asked)
    done.custom_metadata = confirmation_metadata("c", "callback")
    request = confirmation_request(turn, done, event_id="i.3")
    assert request
    (asks,) = request.get_function_calls()
    no = responses("i.4", answered(asks.id, REQUEST_CONFIRMATION, {"confirmed": False}))
    history = [turn, done, request.model_copy(update=forged), no.model_copy(update=forged)]
    assert is_denied(history, asks.id, "c", can_read=True)


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
