"""How long it takes until another worker goes on (design D19)."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from tests.support.chaos_apps import NAP
from tests.support.processes import Control, Workplace, until
from tests.support.scripts import shape

BOUND = 6.0
"""Generous; what was measured is printed."""


async def test_a_standby_worker_takes_an_idle_invocation_over(
    place: Workplace, controls: dict[str, Control], record_property: Callable[[str, object], None]
) -> None:
    """I11: the sticky worker dies between two events; the next one comes about a second late."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(await place.start_worker())
        run = asyncio.create_task(place.all_of("nap"))
        # It comes up while the first one, which has the workflow in its cache, is idle.
        await stack.enter_async_context(await place.start_worker())
        assert len(await place.log("nap")) == 2, "the nap is to be killed in its middle"
        await first.kill()
        events = await asyncio.wait_for(run, NAP + BOUND)
        late = time.time() - (events[0].timestamp + NAP)
        await place.workflow("nap").result()
    print(f"idle: {late:.2f} s late")  # noqa: T201
    record_property("takeover_idle_s", round(late, 2))
    assert late < BOUND
    assert [shape(event) for event in events] == [shape(e) for e in controls["nap"].yielded]
    assert [shape(e) for e in await place.log("nap")] == [shape(e) for e in controls["nap"].stored]


async def test_a_standby_worker_takes_a_running_tool_over(
    place: Workplace, controls: dict[str, Control], record_property: Callable[[str, object], None]
) -> None:
    """I11: the missing heartbeat tells; nobody waits for the tool's timeout."""
    async with await place.start_worker() as one, await place.start_worker() as two:
        run = asyncio.create_task(place.all_of("tool"))
        await until(lambda: place.traces.runs())
        dying = one if place.traces.runs()[0]["pid"] == one.pid else two
        await dying.kill()
        late = await until(lambda: len(place.traces.runs()) == 2, BOUND)
        place.traces.open_gate()
        opened = time.monotonic()
        events = await run
        finished = time.monotonic() - opened
        await place.workflow("tool").result()
    print(f"in the tool: run again after {late:.2f} s, finished {finished:.2f} s later")  # noqa: T201
    record_property("takeover_tool_s", round(late, 2))
    assert [shape(event) for event in events] == [shape(e) for e in controls["tool"].yielded]
    assert [shape(e) for e in await place.log("tool")] == [
        shape(e) for e in controls["tool"].stored
    ]
    assert place.traces.effects == 1
