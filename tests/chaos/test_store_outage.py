"""The session store does not take a write for a while, in the middle of an invocation."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowHandle

from durable_adk.conversation.tool_responses import ABORTED
from durable_adk.events import Event
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService, Status
from tests.support.bounds import bounded, within
from tests.support.chaos_apps import Traces, chaos_apps
from tests.support.processes import INVOCATION, Control, Workplace
from tests.support.scripts import USER, ensure_session, shape
from tests.support.waiting import PATIENCE, until

OUTAGE = 20.0
"""Seconds; a lease would have expired."""
ATTEMPTS = 3
"""Attempts of a commit that an outage outlasts, where a workflow commits."""
BLOCKED = 100
"""Times that a thread ticks while the event loop does not: it would be blocked, not just slow."""
TICK = 0.01


@asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Hold the store's write lock, as another process might."""
    with closing(sqlite3.connect(folder / "sessions.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


class Ticks:
    """Tells how often a thread ticked between two ticks of the event loop, at most.

    Both are slow on a slow machine. Only the loop stalls if something blocks it.
    """

    def __init__(self) -> None:
        self.most = 0
        self._since, self._over = 0, threading.Event()

    async def watch(self, seconds: float) -> None:
        """Have both tick for so long."""
        thread = threading.Thread(target=self._tick)
        thread.start()
        end = time.monotonic() + seconds
        await until(lambda: self._reset() or time.monotonic() > end)
        self._over.set()
        await asyncio.to_thread(thread.join)

    def _reset(self) -> None:
        self.most, self._since = max(self.most, self._since), 0

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            self._since += 1


async def _pending(workflow: WorkflowHandle[Any, Any]) -> list[PendingActivityInfo]:
    """The activities that a workflow waits for."""
    return list((await workflow.describe()).raw_description.pending_activities)


@bounded
async def test_a_locked_store_delays_the_run_and_leaves_the_workflow_answering(
    place: Workplace, controls: dict[str, Control]
) -> None:
    """F16: a commit blocks the workflow for a while, not for the outage.

    The store is locked until queries have been answered between several attempts to commit.
    """
    place.heartbeat = PATIENCE  # the worker stays the same, however slow it is
    workflow: WorkflowHandle[Any, Any] = place.workflow("tool")
    async with place.restarted_worker():
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        async with locked(place.folder):
            place.traces.open_gate()

            async def outlasts() -> bool:
                with within(2.5, "a workflow answers while its store is locked"):
                    await workflow.query("__stack_trace")
                return any(one.attempt >= ATTEMPTS for one in await _pending(workflow))

            await until(outlasts)
            assert not run.done()
        events = await asyncio.wait_for(run, PATIENCE)
        await workflow.result()
    assert [shape(event) for event in events] == [shape(e) for e in controls["tool"].yielded]
    assert [shape(e) for e in await place.log("tool")] == [
        shape(e) for e in controls["tool"].stored
    ]
    assert len(place.traces.runs()) == 1


async def test_a_locked_store_delays_a_run_in_process_and_stops_no_one_else(
    tmp_path: Path, controls: dict[str, Control]
) -> None:
    """F16, D14: the same without Temporal; the event loop stays free meanwhile."""
    traces, ticks = Traces(tmp_path), Ticks()
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
                await ticks.watch(OUTAGE)
                assert not rest.done()
            events += await asyncio.wait_for(rest, PATIENCE)
        assert (await invocation).status is Status.COMPLETED  # its lease was renewed all the while
        stored = await service.get_session(app_name="tool", **USER)
    await service.close()
    assert ticks.most < BLOCKED
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
    async with place.restarted_worker("commit.before:kill@0"):  # only counted
        run = asyncio.create_task(place.all_of(app))
        await until(place.traces.runs)
        async with locked(place.folder):
            place.traces.open_gate()
            await until(lambda: _commits(place))
            await place.workflow(app).cancel()
            await until(lambda: _was_told(place, app))
        await asyncio.wait_for(run, PATIENCE)
        log = await place.log(app)
        following = await asyncio.wait_for(place.all_of(app, invocation_id="next"), PATIENCE)
    # The commit that hung was that of a final text: it ended the run before the cancellation could.
    assert log[-1].error_code == (None if app == "model" else ABORTED)
    asked = [call.id for event in log for call in event.get_function_calls()]
    answered = [answer.id for event in log for answer in event.get_function_responses()]
    assert asked == answered
    assert following[-1].is_final_response()


def _commits(place: Workplace) -> bool:
    """Whether a commit is under way."""
    return "commit.before" in place.traces.hits


async def _was_told(place: Workplace, app: str) -> bool:
    """Whether the activity that waits for the store is to be cancelled."""
    wanted = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
    return any(one.state == wanted for one in await _pending(place.workflow(app)))
