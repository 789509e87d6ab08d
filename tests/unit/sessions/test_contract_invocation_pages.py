"""How every session service lists invocations page by page, run against each of them."""

import time

import pytest

from durable_adk.errors import InvalidRequestError
from durable_adk.sessions import Status
from durable_adk.sessions.records import OPEN
from tests.unit.sessions.contract import abandon, names, opened, paused, resumed

FEW = [("u", "a", "i"), ("u", "b", "i"), ("u", "b", "j"), ("v", "a", "i"), ("Ü", "B", "i")]
"""User, session and invocation; the ids' order depends on upper case and on umlauts."""


async def walked(service, key, **options):
    """User, session and invocation, in the order of the pages."""
    found = service.all_invocations(app_name=key.app_name, **options)
    return [(one.user_id, one.session_id, record.invocation_id) async for one, record in found]


@pytest.mark.parametrize("page", [1, 2, 5, 100])
async def test_pages_have_every_invocation_once(service, key, page, monkeypatch):
    """However small the pages are, and although all have the same time."""
    monkeypatch.setattr(time, "time", lambda: 7.0)
    for user, session, invocation in FEW:
        await paused(service, key._replace(user_id=user, session_id=session), invocation)
    running = ("u", "a", "k")
    await opened(service, key._replace(user_id="u", session_id="a"), "k")
    for options, expected in [
        ({}, {*FEW, running}),
        ({"statuses": {Status.PAUSED}}, set(FEW)),
        ({"statuses": {Status.RUNNING}}, {running}),
        ({"statuses": {Status.FAILED}}, set()),
        ({"statuses": OPEN}, {*FEW, running}),
        ({"session_id": "a", "statuses": [*OPEN, Status.FAILED]}, {FEW[0], FEW[3], running}),
        ({"user_id": "u", "statuses": OPEN}, {*FEW[:3], running}),
        ({"user_id": "u"}, {*FEW[:3], running}),
        ({"user_id": "u", "statuses": {Status.PAUSED}}, set(FEW[:3])),
        ({"session_id": "a"}, {FEW[0], FEW[3], running}),
        ({"session_id": "a", "statuses": {Status.PAUSED}}, {FEW[0], FEW[3]}),
        ({"user_id": "u", "session_id": "b"}, set(FEW[1:3])),
        ({"user_id": "v", "session_id": "a", "statuses": {Status.PAUSED}}, {FEW[3]}),
    ]:
        found = await walked(service, key, **options, page=page)
        assert len(found) == len(expected)
        assert set(found) == expected
    assert await walked(service, key._replace(app_name="other"), page=page) == []


@pytest.mark.parametrize("changed", ["i1", "i2", "i3"])
@pytest.mark.parametrize("pauses", [True, False])
async def test_what_changes_between_two_pages_is_missed_by_none(service, key, changed, pauses):
    """An invocation that is resumed meanwhile, and perhaps pauses again, is open as before."""
    for invocation in ("i1", "i2", "i3"):
        await paused(service, key, invocation)
    statuses = {Status.PAUSED} if pauses else OPEN
    found = service.all_invocations(app_name=key.app_name, statuses=statuses, page=1)
    _, first = await anext(found)
    record = await resumed(service, key, "a", changed)
    if pauses:
        await service.pause_invocation(key, invocation_id=changed, epoch=record.epoch)
    assert {first.invocation_id, *[one.invocation_id async for _, one in found]} == {
        "i1",
        "i2",
        "i3",
    }


@pytest.mark.parametrize("statuses", [(), {Status.PAUSED}])
async def test_a_page_continues_after_an_invocation_that_is_gone(service, key, statuses):
    """The last one of a page may be deleted before the next page is asked for."""
    keys = [key._replace(session_id=name) for name in "abc"]
    for one in keys:
        await paused(service, one)
    found = service.all_invocations(app_name=key.app_name, statuses=statuses, page=1)
    first, _ = await anext(found)
    await service.delete_session(**names(first))
    assert {one async for one, _ in found} == set(keys) - {first}


async def test_a_clock_that_runs_behind_moves_no_invocation_back(service, key, monkeypatch):
    """Another process's clock may be late; an invocation that changes still comes later."""
    await paused(service, key, "i1")
    before = await service.get_invocation(key, "i1")
    monkeypatch.setattr(time, "time", lambda: 7.0)
    assert (await resumed(service, key, "a", "i1")).update_time == before.update_time


async def test_pages_hold_copies_of_the_records(service, key):
    """TRAP-8: they are what `get_invocation` gives, and changing them changes nothing."""
    await paused(service, key)
    ((one, record),) = await service.invocations_by_time(app_name=key.app_name)
    assert record == await service.get_invocation(one, "i1")
    record.status = Status.COMPLETED
    assert (await service.get_invocation(key, "i1")).status is Status.PAUSED
    await abandon(service, key)
    assert await service.invocations_by_time(app_name=key.app_name, statuses={Status.PAUSED}) == []


async def test_unfit_pages_are_refused(service, key):
    """Unusable ids, and a page of none, are the caller's mistake."""
    for unfit in ({"app_name": ""}, {"user_id": "a\0"}, {"session_id": ""}, {"limit": 0}):
        with pytest.raises(InvalidRequestError):
            await service.invocations_by_time(**{"app_name": key.app_name} | unfit)
