"""A query that another worker answers, as the one with the workflow in its cache is gone."""

import asyncio

import pytest

from tests.support.processes import Workplace, until
from tests.support.replay import replay_all

RELOADED = "A query has moved the workflow on"


@pytest.mark.parametrize("message", [{"steers": "gone"}, "no object"])
async def test_what_comes_behind_a_query_is_replayed(place: Workplace, message: object) -> None:
    """I13: a signal that comes after a query has shown its worker news without a task.

    The worker that is killed has the workflow for 0.7 s still, and so has the query. The tool ends
    meanwhile, so the query finds that news, and its task waits for longer than the query did.
    """
    async with await place.start_worker() as one, await place.start_worker() as two:
        workers = {one.pid: one, two.pid: two}
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        await workers[place.traces.runs()[0]["pid"]].kill()
        await until(lambda: len(place.traces.runs()) == 2)
        handle = place.workflow("tool")
        query = asyncio.create_task(handle.query("pending"))
        await asyncio.sleep(0.4)
        place.traces.open_gate()
        assert await query == []
        await handle.signal("answer", message)
        await run
    assert RELOADED in str(await handle.fetch_history())
    await replay_all(place.client)
