"""A worker is killed while it summarises a session, at the end of an invocation (CMP-2)."""

import asyncio

from durable_adk.sessions import Status
from tests.chaos.conftest import MakePlace
from tests.support.processes import SESSION
from tests.support.scripts import gist

APP = "summed"


async def test_the_next_message_waits_for_a_summary_whose_worker_died(
    make_place: MakePlace,
) -> None:
    """CMP-2: another worker makes it; then the run ends, and the next message is answered."""
    place = make_place()
    async with await place.start_worker("compact.before:kill@1") as worker:
        first = asyncio.ensure_future(place.all_of(APP))
        await worker.end()
    assert not first.done()
    async with await place.start_worker():
        assert len(await first) == 1
        async with place.runner(APP) as runner:
            events = runner.run_async(user_id=place.queue, session_id=SESSION, new_message="more")
            assert [gist(event) async for event in events] == ["talker text Hi."]
        assert (await place.workflow(APP).result())["status"] == Status.COMPLETED
