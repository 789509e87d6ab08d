"""A custom agent's body that ends its workers ends a bounded number of them."""

import asyncio

import pytest

from durable_adk.client.invocations import Invocations
from durable_adk.errors import RunError
from durable_adk.sessions import Status
from tests.support.processes import INVOCATION, Control, Workplace
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE, until


async def test_a_body_that_ends_its_workers_is_given_up(
    place: Workplace, controls: dict[str, Control]
) -> None:
    """F12: with an error that is stored; what else the workers had under way is done."""
    place.lost = 2
    async with place.restarted_worker():
        bystander = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        async with asyncio.timeout(3 * PATIENCE):
            with pytest.raises(RunError, match=r"2 workers in a row were lost .max_lost_workers"):
                await place.all_of("deadly")
            handle = Invocations(place.client).handle(place.key("deadly"), INVOCATION)
            with pytest.raises(RunError, match="2 workers in a row were lost"):
                await handle.result()
            place.traces.open_gate()
            events = await bystander
    # The attempts before the second one are not counted: in the cache, and out of it.
    assert 3 <= place.deaths <= 4
    assert [shape(event) for event in events] == [shape(e) for e in controls["tool"].yielded]
    assert [event.error_code for event in await place.log("deadly")] == [None, None, "RunError"]
    record = await place.sessions.get_invocation(place.key("deadly"), INVOCATION)
    assert record is not None
    assert (record.status, record.sealed) == (Status.FAILED, True)
    assert await place.sessions.active_invocation(place.key("deadly")) is None
