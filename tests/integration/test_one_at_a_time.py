"""One invocation at a time per session (D7, I6, F28)."""

import asyncio
import uuid

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.errors import SessionBusyError
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.tools import FunctionTool
from tests.conftest import MakeRunner
from tests.support.gates import until_set
from tests.support.scripts import USER, call, ensure_session, gist, send, stored
from tests.support.waiting import PATIENCE, until


def slow_agent(gate: asyncio.Event | None = None) -> LlmAgent:
    """An agent whose tool waits until the gate opens, if there is one."""

    async def think() -> str:
        """Take a moment."""
        if gate is not None:
            await until_set(gate)
        return "thought"

    model = ScriptedModel(replies=[call("think"), "done"] * 10)
    return LlmAgent(name="a", model=model, tools=[think])


async def collect(runner: Runner, message: str) -> list[str]:
    """Send a message; what came back."""
    events = runner.run_async(**USER, new_message=message)
    return [gist(event) async for event in events]


async def test_messages_at_once_are_serialised(make_runner: MakeRunner) -> None:
    """F28, I6: six messages at the same moment, and their events never interleave."""
    gate = asyncio.Event()
    runner = await make_runner(slow_agent(gate))
    await ensure_session(runner)
    messages = [f"message {number}" for number in range(6)]
    sending = [asyncio.create_task(collect(runner, message)) for message in messages]
    key = SessionKey(runner.app_name, *USER.values())

    async def others_wait() -> bool:
        return len(await runner.session_service.waiting(key)) == 5

    await until(others_wait)
    gate.set()
    answers = await asyncio.gather(*sending)
    assert answers == [["a call think", "a response think", "a text done"]] * 6
    log = await stored(runner)
    turns = [log[start : start + 4] for start in range(0, len(log), 4)]
    assert len(turns) == 6
    assert all(len({event.invocation_id for event in turn}) == 1 for turn in turns)
    assert {turn[0].text for turn in turns} == set(messages)


async def test_reject_refuses_at_once_and_stores_nothing(make_runner: MakeRunner) -> None:
    """D7: the caller chose an error instead of waiting; the active run is not disturbed.

    Once the session is free the same message runs under its id, and once (I12).
    """
    gate = asyncio.Event()
    runner = await make_runner(slow_agent(gate))
    await ensure_session(runner)
    first = runner.run_async(**USER, new_message="first")
    assert gist(await anext(first)) == "a call think"
    second = {"when_busy": "reject", "invocation_id": f"e-{uuid.uuid4()}"}
    for _ in range(2):
        with pytest.raises(SessionBusyError, match="active"):
            await asyncio.wait_for(send(runner, "second", **second), PATIENCE)
    gate.set()
    assert [gist(event) async for event in first] == ["a response think", "a text done"]
    assert [gist(event) for event in await stored(runner)][0::3] == [
        "user text first",
        "a text done",
    ]
    answers = [await send(runner, "second", **second) for _ in range(2)]
    assert answers[0] == answers[1]
    assert [gist(event) for event in await stored(runner)][4::3] == [
        "user text second",
        "a text done",
    ]


async def test_sessions_do_not_wait_for_each_other(make_runner: MakeRunner) -> None:
    """A session that waits for its tool holds up no other."""
    gate = asyncio.Event()
    runner = await make_runner(slow_agent(gate))
    await ensure_session(runner)
    first = runner.run_async(**USER, new_message="first")
    await anext(first)
    other = {"user_id": "u", "session_id": f"other-{uuid.uuid4().hex}"}
    await runner.session_service.create_session(app_name=runner.app_name, **other)
    second = runner.run_async(**other, new_message="second")
    assert gist(await asyncio.wait_for(anext(second), PATIENCE)) == "a call think"
    gate.set()
    assert len([event async for event in first]) == 2
    assert len([event async for event in second]) == 2


async def test_leaving_cancels_nothing_and_attaching_misses_nothing(
    make_runner: MakeRunner,
) -> None:
    """DUR-13, TRAP-45, I17: leave after one event, come back for all of them."""
    gate = asyncio.Event()
    runner = await make_runner(slow_agent(gate))
    await ensure_session(runner)
    name = f"e-{uuid.uuid4()}"
    events = runner.run_async(**USER, new_message="hi", invocation_id=name)
    await anext(events)
    await events.aclose()
    attached = runner.run_async(**USER, invocation_id=name)
    assert gist(await asyncio.wait_for(anext(attached), PATIENCE)) == "a call think"
    gate.set()
    rest = [gist(event) async for event in attached]
    assert rest == ["a response think", "a text done"]
    again = [gist(event) async for event in runner.run_async(**USER, invocation_id=name)]
    assert again == ["a call think", *rest]


async def test_the_sync_run_yields_the_same_events(make_runner: MakeRunner) -> None:
    """RUN-28, TRAP-46, rows 117, 118: same events in the same order, inside a running loop too."""
    runner = await make_runner(slow_agent())
    await ensure_session(runner)

    def in_a_thread() -> list[str]:
        return [gist(event) for event in runner.run(**USER, new_message="sync")]

    answers = await asyncio.wait_for(asyncio.to_thread(in_a_thread), PATIENCE)
    assert answers == ["a call think", "a response think", "a text done"]


async def test_a_sync_run_answers_what_an_earlier_one_waits_for(make_runner: MakeRunner) -> None:
    """RUN-28, TOL-61: in process the paused invocation is in the thread of the first run."""
    model = ScriptedModel(replies=[call("buy"), "done"] * 3)
    tool = FunctionTool(buy, require_confirmation=True)
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[tool]))
    await ensure_session(runner)

    def asked() -> str | None:
        events = list(runner.run(**USER, new_message="buy it"))
        (asking,) = (one for event in events for one in event.get_function_calls() if one.args)
        return asking.id

    def approval(call_id: str | None) -> types.Content:
        said = types.FunctionResponse(
            id=call_id, name="adk_request_confirmation", response={"confirmed": True}
        )
        return types.Content(role="user", parts=[types.Part(function_response=said)])

    def answered(call_id: str | None) -> list[str]:
        return [gist(event) for event in runner.run(**USER, new_message=approval(call_id))]

    first = await asyncio.wait_for(asyncio.to_thread(asked), PATIENCE)
    told = await asyncio.wait_for(asyncio.to_thread(answered, first), PATIENCE)
    assert told == ["a response buy", "a text done"]
    second = await asyncio.wait_for(asyncio.to_thread(asked), PATIENCE)
    here = runner.run_async(**USER, new_message=approval(second))
    assert [gist(event) async for event in here] == ["a response buy", "a text done"]
    await asyncio.wait_for(asyncio.to_thread(asked), PATIENCE)  # closed while it waits


def buy() -> str:
    """Buy."""
    return "bought"


async def test_the_sync_run_raises_what_the_run_raised(make_runner: MakeRunner) -> None:
    """RUN-29: errors reach the caller's thread."""

    def broken() -> None:
        """Raise."""
        raise ValueError("no")

    model = ScriptedModel(replies=[call("broken")])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[broken]))
    await ensure_session(runner)

    def in_a_thread() -> None:
        list(runner.run(**USER, new_message="sync"))

    with pytest.raises(ValueError, match="no"):
        await asyncio.wait_for(asyncio.to_thread(in_a_thread), PATIENCE)
