"""What custom agents, steps and clients give cannot wedge a run or repeat one (F13, F31)."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.service import RPCError

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App
from durable_adk.errors import InvocationCancelledError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import SessionKey
from durable_adk.tools import FunctionTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.messages import workflow_id
from tests.support.payload_matrix import (
    FINE,
    RAISED,
    RUNS,
    TEXTS,
    VALUES,
    Cell,
    Ended,
    blow,
    fits,
    say,
    scripted,
)
from tests.support.scripts import USER, call, calls, send
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(6)]


@pytest.fixture
def ended(client: Client, tmp_path: Path) -> Ended:
    """Runs an agent to its end; see `Cell.run`."""
    return Cell(client, tmp_path).run


class Loud(BaseAgent):
    """A custom agent that yields something once."""

    first: Any = None

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        if not ctx.session.state.get("seen"):
            yield Event(author=self.name, actions=EventActions(state_delta={"seen": True}))
            yield self.first()
        yield Event(author=self.name, content=say())


@pytest.mark.parametrize("name", VALUES)
async def test_state_of_a_custom_agents_event_is_stored_or_ends_the_run(
    ended: Ended, name: str
) -> None:
    """F31: the loop's own values."""

    def first() -> Event:
        return Event(author="a", actions=EventActions(state_delta={"key": VALUES[name]()}))

    error = await ended(Loud(name="a", first=first))
    assert (error is None) == (name == "huge int")


@pytest.mark.parametrize("name", TEXTS)
async def test_text_of_a_custom_agent_is_stored_or_ends_the_run(ended: Ended, name: str) -> None:
    """F31: the loop's own texts."""

    def first() -> Event:
        return Event(author="a", content=say(VALUES[name]()))

    error = await ended(Loud(name="a", first=first))
    assert error is not None or name == "nul"


@pytest.mark.parametrize("name", RAISED)
async def test_what_a_custom_agent_raises_ends_the_run(ended: Ended, name: str) -> None:
    """F12: in the workflow itself."""
    if name == "generator exit":
        pytest.skip("that is how a body is told to end")

    def first() -> Event:
        blow(name)

    error = await ended(Loud(name="a", first=first))
    if name == "cancelled":  # that cancels the run
        assert error is None or isinstance(error, InvocationCancelledError), type(error)
    else:
        assert fits(error, name), type(error)


def made(name: str) -> Any:
    """A step's function that returns a value."""
    RUNS.append("ran")
    return VALUES[name]()


def taken(value: Any) -> str:
    """A step's function that takes one."""
    RUNS.append("ran")
    return "ok"


def blown(name: str) -> None:
    """A step's function that raises."""
    RUNS.append("ran")
    blow(name)


class Stepping(BaseAgent):
    """A custom agent with one step."""

    function: Any
    args: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        if not ctx.session.state.get("seen"):
            yield Event(author=self.name, actions=EventActions(state_delta={"seen": True}))
            await ctx.step(self.function, *self.args())
        yield Event(author=self.name, content=say())


@pytest.mark.parametrize("name", VALUES)
async def test_the_result_of_a_step_is_given_or_ends_the_run(ended: Ended, name: str) -> None:
    """F31, I8: as a tool's."""
    error = await ended(Stepping(name="a", function=made, args=lambda: [name]))
    assert RUNS == ["ran"]
    assert (error is None) == (name in FINE)
    assert error is None or "made" in str(error)


@pytest.mark.parametrize("name", VALUES)
async def test_arguments_of_a_step_are_taken_or_end_the_run(ended: Ended, name: str) -> None:
    """F31: they are an activity's input, which would fail the workflow task for ever."""
    error = await ended(Stepping(name="a", function=taken, args=lambda: [VALUES[name]()]))
    assert (error is None) == (len(RUNS) == 1)


@pytest.mark.parametrize("name", RAISED)
async def test_what_a_step_raises_ends_the_run(ended: Ended, name: str) -> None:
    """F12, I8: once."""
    error = await ended(Stepping(name="a", function=blown, args=lambda: [name]))
    assert RUNS == ["ran"]
    assert fits(error, name), type(error)


@pytest.mark.parametrize("name", VALUES)
async def test_the_state_of_a_request_is_taken_or_refused(ended: Ended, name: str) -> None:
    """F31: what a client sends beside its message."""
    error = await ended(LlmAgent(name="a", model=scripted()), state_delta={"key": VALUES[name]()})
    assert (error is None) == (name == "huge int"), error


@pytest.mark.parametrize("name", TEXTS)
async def test_a_message_is_taken_or_refused(ended: Ended, name: str) -> None:
    """F31: nothing is stored of what is refused."""
    error = await ended(LlmAgent(name="a", model=scripted()), VALUES[name]())
    assert error is not None
    assert "message" in str(error)


@pytest.mark.parametrize("name", ["3 MB", "surrogate"])
async def test_an_agents_answer_to_an_agent_is_told_or_ends_the_run(
    ended: Ended, name: str
) -> None:
    """F31: a child workflow's end."""
    child = LlmAgent(name="child", model=scripted(VALUES[name]()))
    root = LlmAgent(name="a", model=scripted(call("child", request="q")), tools=[AgentTool(child)])
    assert await ended(root) is not None


async def test_an_agents_long_answer_to_an_agent_is_told(ended: Ended) -> None:
    """F31: the child's result is short, whatever it has said."""
    child = LlmAgent(name="child", model=scripted("y" * 900_000))
    root = LlmAgent(
        name="a", model=scripted(call("child", request="q" * 90_000)), tools=[AgentTool(child)]
    )
    assert await ended(root) is None


@pytest.mark.parametrize("count", [3, 7, 10])
async def test_results_of_calls_side_by_side_do_not_sum_up(ended: Ended, count: int) -> None:
    """F31: more than 4 MB in one turn; each tool ran once, and the run ended."""

    def tool() -> str:
        RUNS.append("ran")
        return "x" * 900_000

    model = scripted(calls(*[("tool", {})] * count))
    error = await ended(LlmAgent(name="a", model=model, tools=[FunctionTool(tool, name="tool")]))
    assert len(RUNS) == count
    assert (error is None) == (count * 900_000 < 8_000_000), error


async def test_many_long_steps_side_by_side_do_not_sum_up(ended: Ended) -> None:
    """F31: errors of many calls at once."""

    def tool() -> str:
        RUNS.append("ran")
        raise RuntimeError("x" * 1_000_000)

    model = scripted(calls(*[("tool", {})] * 12))
    error = await ended(LlmAgent(name="a", model=model, tools=[FunctionTool(tool, name="tool")]))
    assert error is not None
    assert len(RUNS) <= 12


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    """A payload as any client can send it."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


def order() -> None:
    """Order something; the shop answers later."""


SENT = {
    "no json": raw(b"{"),
    "not unicode": raw(b'"\xff"'),
    "unknown encoding": raw(b"x", b"binary/encrypted"),
    "nothing": raw(b"", b"binary/null"),
    "deep": raw(b"[" * 100_000 + b"]" * 100_000),
    "deep response": raw(
        b'{"callId": "CALL", "response": {"a": ' + b"[" * 1000 + b"]" * 1000 + b"}}"
    ),
    "nan": raw(b'{"callId": "CALL", "response": {"a": NaN}}'),
    "surrogate": raw(b'{"callId": "CALL", "response": {"a": "\\ud800"}}'),
    "nul": raw(b'{"callId": "CALL", "response": {"a": "\\u0000"}}'),
    "long int": raw(b'{"callId": "CALL", "response": {"a": ' + b"9" * 5000 + b"}}"),
    "1.5 MB": raw(b'{"callId": "CALL", "response": {"a": "' + b"x" * 1_500_000 + b'"}}'),
    "1.5 MB unknown": raw(b'{"' + b"x" * 1_500_000 + b'": 1}'),
}


async def test_a_bad_answer_is_refused_and_the_run_goes_on(client: Client, tmp_path: Path) -> None:
    """F31, D9: each of them; a larger one the server refuses, and the right one is taken."""
    tool = LongRunningFunctionTool(order)
    agent = LlmAgent(name="a", model=scripted(call("order"), "it came"), tools=[tool])
    async with Cell(client, tmp_path).serving(App(name="app", root_agent=agent)) as (runner,):
        events = await send(runner)
        (pending,) = await runner.pending(**USER)
        key = SessionKey("app", "u", "s")
        handle = client.get_workflow_handle(workflow_id(key, events[0].invocation_id))
        for number, payload in enumerate(SENT.values(), 1):
            data = payload.payload.data.replace(b"CALL", pending.call_id.encode())
            encoding = payload.payload.metadata["encoding"]
            await handle.signal("answer", raw(data, encoding))

            async def refused(number: int = number) -> dict[str, str | None] | None:
                known = await handle.query("answers")
                return known if len(known) >= number else None

            outcomes = await until(refused)
            assert all(outcomes.values()), list(SENT)[number - 1]
        assert len(str(outcomes)) < 20_000
        with pytest.raises(RPCError, match="exceeds"):
            await handle.signal("answer", {"callId": "x", "response": {"a": "x" * 3_000_000}})
        await handle.signal("answer", {"callId": pending.call_id, "response": {"ok": True}})
        async with asyncio.timeout(PATIENCE):
            result = await handle.result()
        assert result["text"] == "it came"


@pytest.mark.parametrize("name", SENT)
async def test_a_bad_start_fails_at_once(client: Client, tmp_path: Path, name: str) -> None:
    """F31, I11: any client may start an invocation, with anything."""
    agent = LlmAgent(name="a", model=scripted())
    cell = Cell(client, tmp_path)
    async with cell.serving(App(name="app", root_agent=agent)):
        handle = await client.start_workflow(
            "Invocation", SENT[name], id=uuid.uuid4().hex, task_queue=cell.queue
        )
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), PATIENCE)
