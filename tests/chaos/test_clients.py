"""Clients that die, come back, and come in numbers."""

import asyncio
from contextlib import aclosing

from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from durable_adk.events import Event
from durable_adk.sessions import Status
from tests.support.processes import INVOCATION, Control, Workplace
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE, until


async def _is_running(place: Workplace, app: str) -> bool:
    try:
        description = await place.workflow(app).describe()
    except RPCError:
        return False
    return description.status is WorkflowExecutionStatus.RUNNING


async def _follow(place: Workplace, message: str | None, events: list[Event]) -> None:
    async for event in place.run("tool", message=message):
        events.append(event)  # noqa: PERF401 - what has come so far is looked at


async def test_an_accepted_message_outlives_its_client(
    place: Workplace, controls: dict[str, Control]
) -> None:
    """I12, F24: killed before any worker was there, the client's message is run to its end."""
    client = await place.start_client("tool")
    await until(lambda: _is_running(place, "tool"))
    await client.kill()
    async with place.restarted_worker():
        early = asyncio.create_task(place.all_of("tool", message=None))
        place.traces.open_gate()
        events = await asyncio.wait_for(early, PATIENCE)
        record = await place.sessions.get_invocation(place.key("tool"), INVOCATION)
    assert record is not None
    assert record.status is Status.COMPLETED
    assert [shape(event) for event in events] == [shape(e) for e in controls["tool"].yielded]


async def test_any_number_of_clients_attach_in_the_middle_without_gap_or_duplicate(
    place: Workplace, controls: dict[str, Control]
) -> None:
    """DUR-13, I17, TRAP-45: each sees the events from the first, also one that was there before.

    A client that repeats its message under the same invocation id is attached too (I12).
    """
    place.heartbeat = PATIENCE  # the worker stays the same, however slow it is
    async with place.restarted_worker():
        client = await place.start_client("tool")
        await until(place.traces.runs)
        await client.kill()
        seen: list[list[Event]] = [[], [], []]
        attached = [
            asyncio.create_task(_follow(place, message, events))
            for message, events in zip((None, None, "go"), seen, strict=True)
        ]
        async with aclosing(place.run("tool", message=None)) as leaving:
            await anext(leaving)  # and goes away
        await until(lambda: all(seen))
        place.traces.open_gate()
        await asyncio.wait_for(asyncio.gather(*attached), PATIENCE)
        seen.append(await place.all_of("tool", message=None))
        await place.workflow("tool").result()
    control = controls["tool"]
    for events in seen:
        assert [shape(event) for event in events] == [shape(e) for e in control.yielded]
    assert [shape(event) for event in await place.log("tool")] == [shape(e) for e in control.stored]
    assert len(place.traces.runs()) == 1
