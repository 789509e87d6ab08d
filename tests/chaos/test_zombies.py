"""A worker that is frozen long enough to be given up, and then continues."""

import asyncio
import signal

import pytest

from durable_adk.errors import InvocationTerminatedError, LeaseLostError
from durable_adk.sessions import Status
from tests.chaos.thawing import thawed
from tests.support.processes import INVOCATION, Control, Workplace
from tests.support.scripts import gist, shape
from tests.support.waiting import PATIENCE, until
from tests.support.worker_main import FREEZING


@pytest.fixture
def place(place: Workplace) -> Workplace:
    place.heartbeat = FREEZING
    return place


async def test_a_worker_frozen_in_a_tool_cannot_commit_a_second_result(
    place: Workplace, controls: dict[str, Control]
) -> None:
    """F8, I6, I8: the other worker runs the tool under the same key; the zombie's is void."""
    async with await place.start_worker() as one, await place.start_worker() as two:
        workers = {one.pid: one, two.pid: two}
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        frozen = workers[place.traces.runs()[0]["pid"]]
        frozen.signal(signal.SIGSTOP)
        await until(lambda: len(place.traces.runs()) == 2)
        place.traces.open_gate()
        events = await run
        await place.workflow("tool").result()
        await thawed(frozen)
    control = controls["tool"]
    assert [shape(event) for event in events] == [shape(e) for e in control.yielded]
    assert [shape(event) for event in await place.log("tool")] == [shape(e) for e in control.stored]
    assert {run["pid"] for run in place.traces.runs()} == set(workers)
    assert len({run["key"] for run in place.traces.runs()}) == 1
    assert place.traces.effects == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_worker_frozen_in_a_commit_does_not_commit_twice(
    moment: str, place: Workplace, controls: dict[str, Control]
) -> None:
    """F8, I1: two workers commit the same event; the second finds it by its id."""
    async with await place.start_worker(f"commit.{moment}:stop@2") as frozen:
        run = asyncio.create_task(place.all_of("charge"))
        await until(lambda: place.traces.hits.count(f"commit.{moment}") == 2)
        async with await place.start_worker():
            events = await run
            await place.workflow("charge").result()
            await thawed(frozen)
    control = controls["charge"]
    assert [shape(event) for event in events] == [shape(e) for e in control.yielded]
    assert [shape(e) for e in await place.log("charge")] == [shape(e) for e in control.stored]
    assert await place.state("charge") == control.state


async def test_the_late_commit_of_a_terminated_invocation_is_refused(place: Workplace) -> None:
    """D7, I6: who lost the lease cannot write between another invocation's events."""
    async with await place.start_worker("commit.before:stop@1") as frozen:
        run = asyncio.create_task(place.all_of("charge"))
        await until(lambda: place.traces.hits)
        await place.workflow("charge").terminate()
        with pytest.raises(InvocationTerminatedError):
            await asyncio.wait_for(run, PATIENCE)
        async with await place.start_worker():
            events = await asyncio.wait_for(place.all_of("charge", invocation_id="next"), PATIENCE)
            log = await place.log("charge")
            await thawed(frozen)
    assert await place.log("charge") == log
    # Whoever took over has said so in the log of the terminated one, before its own events.
    assert log[1].error_code == "InvocationTerminatedError"
    assert {event.invocation_id for event in log[2:]} == {"next"}
    assert [shape(event) for event in log[3:]] == [shape(event) for event in events]


async def test_the_next_message_takes_over_from_a_terminated_workflow(place: Workplace) -> None:
    """D7: an owner that was closed without giving the lease back does not block its session."""
    async with await place.start_worker() as worker:
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        waiting = asyncio.create_task(place.all_of("tool", invocation_id="next"))
        await place.workflow("tool").terminate()
        with pytest.raises(InvocationTerminatedError):
            await asyncio.wait_for(run, PATIENCE)
        events = await asyncio.wait_for(waiting, PATIENCE)
        place.traces.open_gate()
        await thawed(worker)
    key = place.key("tool")
    assert [gist(event) for event in events][-1] == "waiter text Done."
    record = await place.sessions.get_invocation(key, INVOCATION)
    assert record is not None
    assert record.status is Status.ABANDONED
    late = events[0].model_copy(update={"id": "late", "invocation_id": INVOCATION})
    with pytest.raises(LeaseLostError):
        await place.sessions.commit_event(key, late, invocation_id=INVOCATION, epoch=record.epoch)
