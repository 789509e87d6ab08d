"""A query that another worker answers, as the one with the workflow in its cache is gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.api.enums.v1 import EventType

from tests.chaos.conftest import MakePlace
from tests.support.processes import Workplace
from tests.support.replay import replay_all
from tests.support.waiting import until

FULL = 18
"""How long the history is when the task after the tool has begun."""
TRIES = 5
NEWS = "ACTIVITY_TASK_COMPLETED"
TASK = ["WORKFLOW_TASK_SCHEDULED", "WORKFLOW_TASK_STARTED"]
STICKY = ["WORKFLOW_TASK_SCHEDULED", "WORKFLOW_TASK_TIMED_OUT"]


@asynccontextmanager
async def moved_on(place: Workplace) -> AsyncIterator[None]:
    """A run of which a query has brought news without a task.

    The worker that is killed has the workflow for 0.7 s still, and so has the query. The tool ends
    meanwhile, so the query finds that news, and its task waits for longer than the query did. If
    the machine is too slow for that, the query finds no news, which is no harm.
    """
    async with await place.start_worker() as one, await place.start_worker() as two:
        workers = {one.pid: one, two.pid: two}
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        await workers[place.traces.runs()[0]["pid"]].kill()
        await until(lambda: len(place.traces.runs()) == 2)
        query = asyncio.create_task(place.workflow("tool").query("pending"))
        await asyncio.sleep(0)  # it is sent first; the tool looks at its gate only now and then
        place.traces.open_gate()
        assert await query == []
        yield
        await run
    await replay_all(place.client)


@pytest.mark.parametrize("message", [{"steers": "gone"}, "no object"])
async def test_what_comes_behind_a_query_is_replayed(place: Workplace, message: object) -> None:
    """I13: a signal that comes after a query has shown its worker news without a task."""
    async with moved_on(place):
        await place.workflow("tool").signal("answer", message)


async def test_a_history_is_as_long_as_in_the_task_after_a_query(make_place: MakePlace) -> None:
    """I13: a task without further news follows the query; only with it is the history full.

    A slow machine may need more than one run until a query has brought the news.
    """
    for _ in range(TRIES):
        place = make_place()
        place.history = FULL
        async with moved_on(place):
            handle = place.workflow("tool")
            first = (await handle.describe()).run_id
            assert await handle.query("pending") == []
        history = await place.client.get_workflow_handle(handle.id, run_id=first).fetch_history()
        types = [EventType.Name(event.event_type).split("_", 2)[2] for event in history.events]
        if types[FULL - 5 : FULL] == [NEWS, *STICKY, *TASK]:
            break
    else:
        pytest.fail(f"no query has brought news; the last history was {types}")
    assert types[-1] == "WORKFLOW_EXECUTION_CONTINUED_AS_NEW"
