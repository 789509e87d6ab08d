"""Invocations without a length limit: the workflow continues as new (D10, F29, F30)."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, LoopAgent, SequentialAgent
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.errors import AgentError
from durable_adk.events import Event, EventActions
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import SessionKey, Status
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool, ToolContext
from durable_adk.wire.messages import workflow_id
from tests.conftest import MakeRunner
from tests.support.scripts import call, calls, gist, send, shape, state, stored
from tests.support.waiting import forever, until

pytestmark = pytest.mark.thorough

OFTEN = Limits(max_history_events=25)
"""Some runs; the server has a second pass between one and the next."""
RUNS: list[str] = []
"""What has run, once for each time."""


def note(what: str, tool_context: ToolContext) -> dict[str, int]:
    """A tool that counts."""
    RUNS.append(what)
    count = tool_context.state.get("count", 0) + 1
    tool_context.state["count"] = count
    tool_context.state["temp:last"] = what
    return {"count": count}


def worker_agent(name: str = "worker", *, steps: int = 3) -> LlmAgent:
    """Calls its tool so many times, then says something; again and again."""
    done = f"{name} is done"

    def reply(request: LlmRequest) -> types.Content | str:
        taken = 0
        for part in (p for content in reversed(request.contents) for p in content.parts or []):
            if done in (part.text or ""):
                break
            taken += part.function_response is not None
        return call("note", what=f"{name}{taken}") if taken < steps else done

    return LlmAgent(name=name, model=ScriptedModel(replies=reply), tools=[note])


def says(author: str, text: str, **delta: Any) -> Event:
    """An event of a body."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author=author, content=content, actions=EventActions(state_delta=delta))


async def measured(number: int) -> int:
    """A step of a body."""
    RUNS.append(f"step{number}")
    await asyncio.sleep(0)
    return number * 10


class Foreman(BaseAgent):
    """A body that does all that a body may: steps, state, sleep, sub-agents, events, decisions."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        held = ctx.session.state
        yield says(self.name, "begin", rounds=0)
        ctx.session.state["dirty"] = "mine"
        while held["rounds"] < 3:
            first = await ctx.step(measured, held["rounds"])
            async for event in self.sub_agents[held["rounds"] % 2].run_async(ctx):
                yield event
            await asyncio.sleep(0.001)
            text = f"{first} {held['count']} {held['dirty']} {held.get('temp:last')}"
            yield says(self.name, text, rounds=held["rounds"] + 1)
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
            break
        yield says(self.name, f"end {sorted(held)}")


def foreman(name: str = "foreman", *below: BaseAgent) -> Foreman:
    """One with two sub-agents."""
    subs = below or (worker_agent(f"{name}_a"), worker_agent(f"{name}_b"))
    return Foreman(name=name, sub_agents=list(subs))


class Chatty(LlmAgent):
    """A subclass whose body calls the built-in one."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield says(self.name, "before")
        async for event in super()._run_async_impl(ctx):
            yield event
        yield says(self.name, "after")


def chatty() -> Chatty:
    """One with a tool."""
    replies = [call("note", what="x"), call("note", what="y"), "spoken"]
    return Chatty(name="chatty", model=ScriptedModel(replies=replies), tools=[note])


class Todo(BaseAgent):
    """Takes the result of a step to pieces."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        todo = await ctx.step(listed)
        while todo:
            yield says(self.name, todo.pop(0))
            async for event in self.sub_agents[0].run_async(ctx):
                yield event


async def listed() -> list[str]:
    """A step whose value can be changed."""
    return ["x", "y", "z"]


SLOW: list[int] = []
"""The steps of `slow` that have ended."""


async def slow(number: int) -> int:
    """A step; the first ends after the second, and the third never."""
    if number == 1:
        await until(lambda: SLOW.count(2) > SLOW.count(1))
    elif number == 3:
        await forever()
    SLOW.append(number)
    return number


class Juggler(BaseAgent):
    """Waits for two things at a time, before and after its agent has run."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for _ in range(2):
            both = await asyncio.gather(ctx.step(slow, 1), ctx.step(slow, 2))
            yield says(self.name, str(both))
            async for event in self.sub_agents[0].run_async(ctx):
                yield event


class Impatient(BaseAgent):
    """Gives a step up after a time."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        try:
            async with asyncio.timeout(0.05):
                await ctx.step(slow, 3)
        except TimeoutError:
            yield says(self.name, "too slow")
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        yield says(self.name, "end")


class Twice(SequentialAgent):
    """A subclass that goes through its sub-agents two times."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in range(2):
            async for event in super()._run_async_impl(ctx):
                yield event
            yield says(self.name, f"pass {number}")


class Handing(LlmAgent):
    """A subclass that says something after its model has handed over."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in super()._run_async_impl(ctx):
            yield event
        yield says(self.name, "after")


def handing() -> Handing:
    """One that hands over at once."""
    model = ScriptedModel(replies=lambda _: call("transfer_to_agent", agent_name="peer"))
    return Handing(name="handing", model=model, sub_agents=[worker_agent("peer")])


class Steps(BaseAgent):
    """Many steps and nothing else."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        total = 0
        for number in range(12):
            total += await ctx.step(measured, number)
        yield says(self.name, str(total))


TREES = {
    "todo": lambda: Todo(name="todo", sub_agents=[worker_agent(steps=1)]),
    "juggler": lambda: Juggler(name="juggler", sub_agents=[worker_agent(steps=1)]),
    "impatient": lambda: Impatient(name="impatient", sub_agents=[worker_agent()]),
    "twice": lambda: Twice(name="t", sub_agents=[worker_agent("a"), worker_agent("b", steps=1)]),
    "handing": handing,
    "steps": lambda: Steps(name="steps"),
    "llm": worker_agent,
    "loop": lambda: LoopAgent(name="loop", max_iterations=3, sub_agents=[worker_agent()]),
    "body": foreman,
    "nested": lambda: foreman("outer", foreman("inner"), worker_agent("plain")),
    "subclass": lambda: SequentialAgent(name="seq", sub_agents=[chatty(), foreman()]),
}


def on_temporal(runner: Runner) -> bool:
    """In process the loop is only taken down and set up again."""
    return isinstance(runner._client.backend, TemporalBackend)


async def _workflows(client: Client, invocation_id: str) -> list[str]:
    """The runs of an invocation's workflow, as ids."""
    name = workflow_id(SessionKey("app", "u", "s"), invocation_id)
    return [run.run_id async for run in client.list_workflows(f"WorkflowId = '{name}'")]


@pytest.mark.parametrize("tree", TREES)
async def test_an_invocation_is_the_same_in_one_run_and_in_many(
    tree: str, make_runner: MakeRunner, client: Client
) -> None:
    """D10: events, state and what has run do not tell where the workflow continued as new."""
    invocation_id = uuid.uuid4().hex
    RUNS.clear()
    SLOW.clear()
    async with InMemoryRunner(agent=TREES[tree](), app_name="app") as once:
        expected = [shape(event) for event in await send(once, invocation_id=invocation_id)]
        expected_state, expected_runs = await state(once), list(RUNS)
    RUNS.clear()
    runner = await make_runner(TREES[tree](), limits=OFTEN)
    if not on_temporal(runner):
        runner._client.backend.roll_every = 1
    events = await send(runner, invocation_id=invocation_id)
    assert [shape(event) for event in events] == expected
    assert await state(runner) == expected_state
    assert expected_runs == RUNS
    if on_temporal(runner):
        rolled = len(await _workflows(client, invocation_id)) > 1
        assert rolled == (tree != "juggler")


class Fickle(BaseAgent):
    """A body that is another one after a while: as if a deploy had changed it."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        if "begun" in RUNS:
            yield says(self.name, "what is new")
        RUNS.append("begun")
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@pytest.mark.parametrize("make_runner", ["local"], indirect=True)
async def test_a_body_that_has_changed_is_told_so(make_runner: MakeRunner) -> None:
    """D6, D10: brought back with other code, a body fails with what to do, and nothing hangs."""
    RUNS.clear()
    runner = await make_runner(Fickle(name="f", sub_agents=[worker_agent()]))
    runner._client.backend.roll_every = 1
    with pytest.raises(AgentError, match="Worker Versioning"):
        await send(runner)
    assert gist((await stored(runner))[-1]).startswith("f error")


LONG = 1234.5
"""Seconds of a sleep that no other code has."""


class Waiting(BaseAgent):
    """Sleeps long before its agent runs."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await asyncio.sleep(LONG)
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@pytest.mark.parametrize("make_runner", ["local"], indirect=True)
async def test_what_was_slept_is_not_slept_again(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: a body that is brought back goes past its waits: ten runs sleep once."""
    slept: list[float] = []
    ours = asyncio.sleep

    async def sleep_at_once(delay: float, result: Any = None) -> Any:
        slept.append(delay)
        return await ours(0 if delay == LONG else delay, result)

    monkeypatch.setattr(asyncio, "sleep", sleep_at_once)
    runner = await make_runner(Waiting(name="w", sub_agents=[worker_agent(steps=10)]))
    runner._client.backend.roll_every = 1
    await send(runner)
    assert slept.count(LONG) == 1


def charge(amount: int) -> int:
    """A tool that somebody has to approve."""
    RUNS.append(f"charged {amount}")
    return amount


async def _paused(make_runner: MakeRunner, client: Client) -> tuple[Runner, Any, str]:
    """An invocation that waits for an approval, its workflow, and the call that waits."""
    model = ScriptedModel(replies=[call("charge", amount=5), "charged"])
    tools = [FunctionTool(charge, require_confirmation=True)]
    agent = LlmAgent(name="a", model=model, tools=tools)
    runner = await make_runner(agent, limits=Limits(max_history_events=1))
    invocation_id = uuid.uuid4().hex
    await send(runner, invocation_id=invocation_id)
    handle = client.get_workflow_handle(workflow_id(SessionKey("app", "u", "s"), invocation_id))
    (waiting,) = await handle.query("pending")
    return runner, handle, waiting["callId"]


async def _in_the_gap(handle: Any) -> None:
    """Have a refused answer make the workflow continue as new; return before its next run begins.

    The server lets a second pass between the beginnings of two runs. Who misses it tries again.
    """

    async def reached() -> bool:
        before = (await handle.describe()).run_id
        await handle.signal("answer", {"callId": "nothing", "confirmed": True})

        async def found() -> Any:
            description = await handle.describe()
            return description if description.run_id != before else None

        return (await until(found)).history_length <= 2

    await until(reached)


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_an_answer_between_two_runs_is_taken(make_runner: MakeRunner, client: Client) -> None:
    """F26, F30: one without a name, behind one of the run before that had none either."""
    RUNS.clear()
    runner, handle, waiting = await _paused(make_runner, client)
    await _in_the_gap(handle)
    await handle.signal("answer", {"callId": waiting, "confirmed": True})
    assert (await handle.result())["text"] == "charged"
    assert RUNS == ["charged 5"]
    assert gist((await stored(runner))[-1]) == "a text charged"


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_what_waits_is_told_between_two_runs(make_runner: MakeRunner, client: Client) -> None:
    """D10, D9: approvals that are pending survive, for whoever asks; and no longer than that."""
    RUNS.clear()
    _, handle, waiting = await _paused(make_runner, client)
    await _in_the_gap(handle)
    assert [call["callId"] for call in await handle.query("pending")] == [waiting]
    await _in_the_gap(handle)
    await handle.signal("answer", {"callId": waiting, "confirmed": True})
    assert (await handle.result())["text"] == "charged"
    assert await handle.query("pending") == []


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_the_next_run_shows_arguments_and_takes_an_update(
    make_runner: MakeRunner, client: Client
) -> None:
    """D10, D9: the checkpoint keeps what a pending call asks for; an update answers it there."""
    RUNS.clear()
    _, handle, waiting = await _paused(make_runner, client)
    (before,) = await handle.query("pending")
    assert (before["tool"], before["arguments"]) == ("charge", {"amount": 5})
    await _in_the_gap(handle)

    async def shown() -> bool:
        after = await handle.query("pending")
        assert [call["callId"] for call in after] == [waiting]
        return after == [before]

    await until(shown)
    answer = {"callId": waiting, "confirmed": True, "answerId": "a-1"}
    told = await handle.execute_update("answer", answer)
    assert told == {"answerId": "a-1", "accepted": True, "reason": None}
    assert (await handle.result())["text"] == "charged"


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_cancellation_between_two_runs_ends_the_invocation(
    make_runner: MakeRunner, client: Client
) -> None:
    """I15, I24: sealed and closed as anywhere else; the session is free."""
    RUNS.clear()
    runner, handle, _ = await _paused(make_runner, client)
    await _in_the_gap(handle)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    ((key, record),) = await runner.session_service.invocations_by_time(app_name="app")
    assert record.status is Status.CANCELLED
    assert await runner.session_service.active_invocation(key) is None
    assert RUNS == []


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_the_cursor_is_small_and_runs_are_alike(
    make_runner: MakeRunner, client: Client
) -> None:
    """D10, I14: the argument of a later run is below 1 KB, and no run is longer than another."""
    invocation_id = uuid.uuid4().hex
    RUNS.clear()
    runner = await make_runner(worker_agent(steps=60), limits=Limits(max_history_events=200))
    await send(runner, "x" * 100_000, invocation_id=invocation_id)
    name = workflow_id(SessionKey("app", "u", "s"), invocation_id)
    lengths, cursors = [], []
    for run_id in await _workflows(client, invocation_id):
        handle = client.get_workflow_handle(name, run_id=run_id)
        history = await handle.fetch_history()
        lengths.append(len(history.events))
        last = history.events[-1]
        if last.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            attributes = last.workflow_execution_continued_as_new_event_attributes
            cursors.append(attributes.input.payloads[0].ByteSize())
    assert len(lengths) > 2
    assert max(cursors) < 1000
    assert max(lengths) < 300
    assert len(RUNS) == 60
    answer = (await stored(runner))[-1]
    assert answer.text == "worker is done"


async def test_calls_that_are_still_pending_survive_a_new_run(make_runner: MakeRunner) -> None:
    """D10, TOL-42: the model spoke after each answer, and each approved call still runs."""

    def pay(amount: int) -> str:
        """Pay something."""
        return f"paid {amount}"

    asked = calls(*(("pay", {"amount": number}) for number in (1, 2, 3)))
    left: list[Any] = [asked, "first", "second", "third"]
    model = ScriptedModel(replies=lambda _: left.pop(0))
    tools = [FunctionTool(pay, require_confirmation=True)]
    agent = LlmAgent(name="desk", model=model, tools=tools)
    runner = await make_runner(agent, limits=Limits(max_history_events=1))
    await send(runner)
    for words in ("first", "second", "third"):
        pending = (await runner.pending(user_id="u", session_id="s"))[-1]
        answer = types.FunctionResponse(
            id=pending.call_id, name=pending.name, response={"confirmed": True}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        events = [
            event
            async for event in runner.run_async(user_id="u", session_id="s", new_message=message)
        ]
        assert [gist(event) for event in events] == ["desk response pay", f"desk text {words}"]
    responses = [
        one.response for event in await stored(runner) for one in event.get_function_responses()
    ]
    assert [{"result": f"paid {number}"} for number in (3, 2, 1)] == [
        one for one in responses if "result" in (one or {})
    ]
