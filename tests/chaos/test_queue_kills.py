"""Workers that die or freeze while messages wait for their session."""

import asyncio
from collections.abc import Awaitable

from durable_adk.sessions import Status
from tests.chaos.thawing import thawed
from tests.support.processes import INVOCATION, Workplace
from tests.support.scripts import gist
from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import opened


async def test_messages_keep_their_order_whatever_dies(place: Workplace) -> None:
    """D7, F28, I6: workers die as they open a message, one waiter is terminated in the middle."""
    key, app = place.key("charge"), "charge"
    held = await opened(place.sessions, key, "busy")
    names = [f"m{number}" for number in range(5)]
    runs: list[asyncio.Task[object]] = []

    async def waiting() -> list[str]:
        return [ticket.invocation_id for ticket in await place.sessions.waiting(key)]

    async with await place.start_worker() as first:
        for number, name in enumerate(names):
            runs.append(asyncio.create_task(place.all_of(app, invocation_id=name)))
            await until(lambda count=number + 1: _has(waiting(), count))
        await first.kill()
    await place.workflow(app, "m2").terminate()
    async with place.restarted_worker("open.after:kill@2"):
        assert await waiting() == names
        ending = {"invocation_id": "busy", "epoch": held.epoch, "status": Status.COMPLETED}
        await place.sessions.close_invocation(key, **ending)
        over = asyncio.gather(*runs, return_exceptions=True)
        outcomes = dict(zip(names, await asyncio.wait_for(over, PATIENCE), strict=True))
    assert place.deaths == 1
    assert [name for name in names if isinstance(outcomes[name], Exception)] == ["m2"]
    order = [event.invocation_id for event in await place.log(app)]
    assert list(dict.fromkeys(order)) == ["busy", "m0", "m1", "m3", "m4"]
    assert order == sorted(order, key=order.index), "events of two invocations interleave"
    assert place.traces.effects == 4


async def test_the_late_commit_of_an_interrupted_invocation_is_refused(place: Workplace) -> None:
    """I6: a worker that is frozen as its invocation is interrupted cannot write afterwards."""
    async with await place.start_worker("commit.before:stop@1") as frozen:
        run = asyncio.create_task(place.all_of("charge"))
        await until(lambda: place.traces.hits)
        async with await place.start_worker():
            interrupting = place.all_of("charge", invocation_id="next", when_busy="interrupt")
            await asyncio.wait_for(interrupting, PATIENCE)
            log = await place.log("charge")
            await thawed(frozen)
            await asyncio.wait([run], timeout=PATIENCE)
    assert await place.log("charge") == log
    assert log[-1].text == "Charged."
    own = [gist(event) for event in log if event.invocation_id == INVOCATION]
    assert own[-1] == "cashier error INVOCATION_ABORTED"
    record = await place.sessions.get_invocation(place.key("charge"), INVOCATION)
    assert record is not None
    assert record.status is Status.CANCELLED


async def _has(waiting: Awaitable[list[str]], count: int) -> bool:
    return len(await waiting) == count
