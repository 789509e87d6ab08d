"""The session store does not take a write for a while, in the middle of an invocation."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from durable_adk.conversation.tool_responses import ABORTED
from durable_adk.events import Event
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService, Status
from tests.support.chaos_apps import Traces, chaos_apps
from tests.support.processes import INVOCATION, Control, Workplace, until
from tests.support.scripts import USER, ensure_session, shape

OUTAGE = 20.0
FALLBACK = 2.5
"""Seconds after which a commit is surely no longer a local activity."""


@asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Hold the store's write lock, as another process might."""
    with closing(sqlite3.connect(folder / "sessions.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


async def _slowest(probe: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> float:
    """The longest of the probes made one after another for so many seconds."""
    slowest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        await probe()
        slowest = max(slowest, time.monotonic() - started)
        await asyncio.sleep(0.3)
    return slowest


async def test_a_locked_store_delays_the_run_and_leaves_the_workflow_answering(
    place: Workplace, controls: dict[str, Control], record_property: Callable[[str, object], None]
) -> None:
    """F16, reliability 1b': a commit blocks the workflow for about a second, not for the outage."""
    workflow: WorkflowHandle[Any, Any] = place.workflow("tool")
    async with place.restarted_worker():
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        async with locked(place.folder):
            place.traces.open_gate()
            slowest = await _slowest(lambda: workflow.query("__stack_trace"), OUTAGE)
            assert not run.done()
        unlocked = time.monotonic()
        events = await asyncio.wait_for(run, 15)
        after = time.monotonic() - unlocked
        await workflow.result()
    record_property("slowest_query_s", round(slowest, 2))
    record_property("finished_after_s", round(after, 2))
    print(f"slowest query {slowest:.2f} s, finished {after:.2f} s after the outage")  # noqa: T201
    assert slowest < 2.5
    assert [shape(event) for event in events] == [shape(e) for e in controls["tool"].yielded]
    assert [shape(e) for e in await place.log("tool")] == [
        shape(e) for e in controls["tool"].stored
    ]
    assert len(place.traces.runs()) == 1


async def test_a_locked_store_delays_a_run_in_process_and_stops_no_one_else(
    tmp_path: Path, controls: dict[str, Control]
) -> None:
    """F16, D14: the same without Temporal; the event loop stays free meanwhile."""
    traces = Traces(tmp_path)
    service = SqliteSessionService(tmp_path / "sessions.db")
    async with Runner(app=chaos_apps(tmp_path)["tool"], session_service=service) as runner:
        await ensure_session(runner)
        options = {**USER, "new_message": "go", "invocation_id": INVOCATION}
        async with aclosing(runner.run_async(**options)) as stream:
            events = [await anext(stream)]
            (invocation,) = runner._client.backend._tasks.values()  # pyright: ignore[reportPrivateUsage]
            rest = asyncio.create_task(_rest(stream))
            await until(traces.runs)
            async with locked(tmp_path):
                traces.open_gate()
                slowest = await _slowest(lambda: asyncio.sleep(0), OUTAGE)
                assert not rest.done()
            events += await asyncio.wait_for(rest, 10)
        assert (await invocation).status is Status.COMPLETED  # its lease was renewed all the while
        stored = await service.get_session(app_name="tool", **USER)
    await service.close()
    assert slowest < 0.5
    assert stored is not None
    assert [shape(event) for event in events] == [shape(e) for e in controls["tool"].yielded]
    assert [shape(event) for event in stored.events] == [shape(e) for e in controls["tool"].stored]


async def _rest(events: Any) -> list[Event]:
    return [event async for event in events]


@pytest.mark.parametrize("app", ["caller", "model"])
async def test_a_cancellation_during_a_commit_knows_what_was_committed(
    app: str, place: Workplace
) -> None:
    """CAN-2, I9: whether the event made it or not, every call has a response and the error is last.

    The commit that hangs when the cancellation comes may still succeed: its outcome must be waited
    for, or the call it stores is never answered.
    """
    async with place.restarted_worker():
        run = asyncio.create_task(place.all_of(app))
        await until(place.traces.runs)
        async with locked(place.folder):
            place.traces.open_gate()
            await asyncio.sleep(FALLBACK)
            await place.workflow(app).cancel()
            await asyncio.sleep(FALLBACK)
        await asyncio.wait_for(run, 20)
        log = await place.log(app)
        following = await asyncio.wait_for(place.all_of(app, invocation_id="next"), 20)
    # The commit that hung was that of a final text: it ended the run before the cancellation could.
    assert log[-1].error_code == (None if app == "model" else ABORTED)
    asked = [call.id for event in log for call in event.get_function_calls()]
    answered = [answer.id for event in log for answer in event.get_function_responses()]
    assert asked == answered
    assert following[-1].is_final_response()
