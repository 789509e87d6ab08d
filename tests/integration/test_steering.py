"""Messages that are delivered to the active invocation before its next model call (D7)."""

import asyncio
import uuid

import pytest

from durable_adk.agents import LlmAgent, LoopAgent
from durable_adk.settings import Limits
from tests.conftest import MakeRunner
from tests.support.gates import GATES, listener, run, until_begun, until_told
from tests.support.scripts import ensure_session, gist, stored
from tests.support.streams import StreamingModel
from tests.support.waiting import until


async def test_the_active_invocation_hears_the_message_before_its_next_model_call(
    make_runner: MakeRunner,
) -> None:
    """D7: one invocation, both messages in it, and both callers see its answer."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    await ensure_session(runner)
    first = run(runner, "one")
    await until_begun(name)
    second = run(runner, "two", when_busy="steer", invocation_id=f"s-{name}")
    await until_told(runner, f"s-{name}")
    assert not second.done()
    GATES[name].set()
    assert (await first)[-1] == "a text heard two"
    assert await second == ["a text heard two"]
    events = await stored(runner)
    assert [gist(event) for event in events] == [
        "user text one",
        "a call gate",
        "a response gate",
        "user text two",
        "a text heard two",
    ]
    assert len({event.invocation_id for event in events}) == 1
    assert [event.id for event in events][3] == f"s-{name}.0"


async def test_a_message_that_nobody_hears_runs_by_itself(make_runner: MakeRunner) -> None:
    """D7: with no active invocation, or when it asks no model any more, steering is enqueueing."""
    name = uuid.uuid4().hex
    answering = asyncio.Event()
    model = StreamingModel(turns=[[answering, "hi"], ["again"]])
    runner = await make_runner(LlmAgent(name="a", model=model))
    await ensure_session(runner)
    first = run(runner, "one", when_busy="steer")
    await until(lambda: model.asked)  # its answer will be the last
    second = run(runner, "two", when_busy="steer", invocation_id=f"s-{name}")
    await until_told(runner, f"s-{name}")
    answering.set()
    assert await first == ["a text hi"]
    assert await second == ["a text again"]
    assert [gist(event) for event in await stored(runner)] == [
        "user text one",
        "a text hi",
        "user text two",
        "a text again",
    ]


async def test_a_message_that_is_sent_again_is_heard_once(make_runner: MakeRunner) -> None:
    """I12: the same id is the same message, while it waits and after it was delivered."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    await ensure_session(runner)
    first = run(runner, "one")
    await until_begun(name)
    options = {"when_busy": "steer", "invocation_id": f"s-{name}"}
    twice = [run(runner, "two", **options) for _ in range(2)]
    await until_told(runner, f"s-{name}")
    GATES[name].set()
    await first
    for one in twice:
        assert (await one)[-1] == "a text heard two"
    assert (await run(runner, "two", **options))[-1] == "a text heard two"
    assert [gist(event) for event in await stored(runner)].count("user text two") == 1


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_messages_are_heard_across_runs_of_the_workflow(make_runner: MakeRunner) -> None:
    """D7, D10: several messages, in their order, while the workflow continues as new."""
    name = uuid.uuid4().hex
    agent = LoopAgent(name="loop", max_iterations=1, sub_agents=[listener(name)])
    runner = await make_runner(agent, limits=Limits(max_history_events=1))
    await ensure_session(runner)
    first = run(runner, "one")
    await until_begun(name)
    later = []
    for text in ("two", "three"):
        later.append(run(runner, text, when_busy="steer", invocation_id=f"{text}-{name}"))
        await until_told(runner, f"{text}-{name}")
    GATES[name].set()
    assert (await first)[-1] == "a text heard three"
    for one in later:
        assert (await one)[-1] == "a text heard three"
    events = [gist(event) for event in await stored(runner)]
    assert events[3:5] == ["user text two", "user text three"]
