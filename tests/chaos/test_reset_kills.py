"""Workflows that are reset after their worker was killed while they continued as new (I11, D10)."""

import asyncio

import pytest

from durable_adk.sessions import Status
from tests.integration.test_reset import reset
from tests.support.matrix_apps import DRAWN
from tests.support.processes import INVOCATION, Workplace
from tests.support.waiting import PATIENCE, until


@pytest.mark.parametrize(("before", "after"), [(24, 12), (12, 24)])
async def test_a_body_continues_from_the_journal_of_its_own_run(
    before: int, after: int, place: Workplace
) -> None:
    """I2, D10: the run that was reset has stored a journal that ends elsewhere."""
    place.history = before
    async with await place.start_worker("roll.after:kill@1"):
        run = asyncio.create_task(place.all_of("drawing"))
        await until(lambda: "roll.after" in place.traces.hits)
    await reset(place.client, place.workflow("drawing").id)
    place.history = after
    async with await place.start_worker():
        events = await asyncio.wait_for(run, PATIENCE)
        await place.workflow("drawing").result()
    assert [event.actions.state_delta["drawn"] for event in events] == list(range(1, DRAWN + 1))
    assert len({event.actions.state_delta["last"] for event in events}) == DRAWN
    assert [event.id for event in (await place.log("drawing"))[1:]] == [e.id for e in events]
    record = await place.sessions.get_invocation(place.key("drawing"), INVOCATION)
    assert record is not None
    assert record.status is Status.COMPLETED
