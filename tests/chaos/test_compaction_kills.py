"""A worker is killed while it summarises a session, at the end of an invocation (CMP-2)."""

import asyncio

import pytest

from durable_adk.sessions import Status
from tests.chaos.conftest import MakePlace
from tests.support.processes import INVOCATION, SESSION
from tests.support.scripts import gist

APP = "summed"


@pytest.mark.parametrize(
    ("moment", "asked"), [("compact.before", 1), ("compact.made", 2), ("compact.after", 1)]
)
async def test_a_summary_survives_its_worker(
    make_place: MakePlace, moment: str, asked: int
) -> None:
    """I10: one summary, and no model is asked for one that is stored; the result is out before."""
    place = make_place()
    async with place.restarted_worker(f"{moment}:kill@1"):
        yielded = await place.all_of(APP)
        result = await place.workflow(APP).result()
    assert [gist(event) for event in yielded] == ["talker text Hi."]
    assert result["status"] == Status.COMPLETED
    assert place.deaths == 1
    log = await place.log(APP)
    assert [event.id for event in log] == [
        f"{INVOCATION}.0",
        f"{INVOCATION}.1",
        f"{INVOCATION}.compaction",
    ]
    assert log[-1].actions.compaction
    assert len(place.traces.runs("summarizer")) == asked


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
