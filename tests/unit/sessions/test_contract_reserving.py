"""What every session service does about events that only the loop commits."""

import asyncio

import pytest

from durable_adk.errors import EventConflictError, LeaseLostError, SessionRegressedError
from durable_adk.sessions import Status
from durable_adk.sessions.records import RESERVED
from tests.unit.sessions.contract import event, log, opened, resumed

OWN = {"invocation_id": "i1", "epoch": 1}


async def reserved(service, key, event_id="e", *, revision=1, **options):
    """Reserve an event the way a later attempt does."""
    return await service.reserve_event(key, event_id, **{**OWN, **options}, revision=revision)


async def test_a_reserved_event_is_committed_by_the_loop_only(service, key):
    """I1: an attempt that was taken for dead comes too late, before and after the loop's commit."""
    await opened(service, key)
    assert await reserved(service, key) is None
    assert await reserved(service, key) is None  # its acknowledgement was lost
    for _ in range(2):
        with pytest.raises(EventConflictError, match="reserved"):
            await service.commit_event(key, event("e", text="early"), **OWN, by_step=True)
        assert await service.commit_event(key, event("e"), **OWN) == 2
    assert await service.commit_event(key, event("f"), **OWN, by_step=True) == 3


async def test_an_early_commit_that_came_first_is_what_is_reserved(service, key):
    """F8: then the later attempt continues with it, and nothing is reserved."""
    await opened(service, key)
    early = event("e", text="early")
    await service.commit_event(key, early, **OWN, by_step=True)
    for _ in range(2):
        stored = await reserved(service, key)
        assert (stored.seq, stored.event.text) == (2, "early")
    assert await service.commit_event(key, early, **OWN, by_step=True) == 2


async def test_an_early_commit_that_has_closed_the_invocation_is_found(service, key):
    """D4: with its final text a step gives the lease back in the same transaction."""
    await opened(service, key)
    closing = {"closing": Status.COMPLETED, "by_step": True}
    await service.commit_event(key, event("e", text="early"), **OWN, **closing)
    assert (await reserved(service, key)).seq == 2


async def test_of_a_reservation_and_an_early_commit_one_comes_first(service, key):
    """Both look and write in one transaction: never both, never neither."""
    await opened(service, key)
    committed, *found = await asyncio.gather(
        service.commit_event(key, event("e"), **OWN, by_step=True),
        *(reserved(service, key) for _ in range(4)),
        return_exceptions=True,
    )
    if committed == 2:
        assert (await reserved(service, key)).seq == 2
    else:
        assert isinstance(committed, EventConflictError)
        assert found == [None] * 4


async def test_several_events_are_reserved_apart(service, key):
    """The steps of agents side by side may all have been retried."""
    await opened(service, key)
    for name in "ab":
        await reserved(service, key, name)
    for name in "ab":
        with pytest.raises(EventConflictError, match=f"'{name}' is reserved"):
            await service.commit_event(key, event(name), **OWN, by_step=True)
    assert await service.commit_event(key, event("c"), **OWN, by_step=True) == 2


@pytest.mark.parametrize("gone", ["closed", "paused", "other epoch", "no session"])
async def test_without_the_lease_nothing_is_reserved(service, key, gone):
    """I6, I24: nobody commits then; and nothing is left that anybody would have to look at."""
    epoch = 2 if gone == "other epoch" else 1
    if gone != "no session":
        await opened(service, key)
    if gone == "closed":
        await service.close_invocation(key, **OWN, status=Status.COMPLETED)
    if gone == "paused":
        await service.pause_invocation(key, **OWN)
    assert await reserved(service, key, epoch=epoch) is None
    assert await service.read_notes(key, invocation_id="i1", kind=RESERVED) == []


async def test_a_store_that_is_older_than_the_run_reserves_nothing(service, key):
    """I21: it waits for its repair, as for a commit."""
    await opened(service, key)
    with pytest.raises(SessionRegressedError):
        await reserved(service, key, revision=2)
    assert await service.read_notes(key, invocation_id="i1", kind=RESERVED) == []


async def test_a_reservation_ends_with_its_epoch(service, key):
    """I24: attempts of an earlier epoch are refused by it, and those of a later one are others."""
    await opened(service, key)
    await reserved(service, key)
    await service.pause_invocation(key, **OWN)
    await resumed(service, key)
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("e"), **OWN, by_step=True)
    later = {"invocation_id": "i1", "epoch": 2}
    assert await service.commit_event(key, event("e"), **later, by_step=True) == 3
    await service.close_invocation(key, **later, status=Status.COMPLETED)
    assert await service.read_notes(key, invocation_id="i1", kind=RESERVED) == []
    assert [name for _, name in await log(service, key)] == ["i1/user", "a", "e"]
