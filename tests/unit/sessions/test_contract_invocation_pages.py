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
async def test_what_changes_between_two_pages_is_left_out_of_none(service, key, changed):
    """An invocation that is answered, and pauses again, meanwhile is still one that waits."""
    for invocation in ("i1", "i2", "i3"):
        await paused(service, key, invocation)
    elsewhere = {"app_name": key.app_name, "statuses": {Status.PAUSED}, "limit": 1}
    page = await service.page_invocations(**elsewhere)
    record = await resumed(service, key, "a", changed)
    await service.pause_invocation(key, invocation_id=changed, epoch=record.epoch)
    seen = []
    while page:
        seen += [record.invocation_id for _, record in page]
        page = await service.page_invocations(**elsewhere, after=page[-1])
    assert set(seen) == {"i1", "i2", "i3"}


@pytest.mark.parametrize("changed", ["i1", "i2", "i3"])
async def test_what_changes_from_one_status_to_another_is_missed_by_no_page(service, key, changed):
    """An invocation that is resumed between two pages is open as before."""
    for invocation in ("i1", "i2", "i3"):
        await paused(service, key, invocation)
    elsewhere = {"app_name": key.app_name, "statuses": OPEN, "limit": 1}
    page = await service.page_invocations(**elsewhere)
    await resumed(service, key, "a", changed)
    seen = []
    while page:
        seen += [record.invocation_id for _, record in page]
        page = await service.page_invocations(**elsewhere, after=page[-1])
    assert set(seen) == {"i1", "i2", "i3"}


async def test_a_page_goes_on_where_an_invocation_was_that_is_gone(service, key):
    """The last one of a page may be deleted before the next page is asked for."""
    keys = [key._replace(session_id=name) for name in "abc"]
    for one in keys:
        await paused(service, one)
    for statuses in ((), {Status.PAUSED}):
        page = await service.page_invocations(app_name=key.app_name, statuses=statuses, limit=1)
        (first,) = page
        await service.delete_session(**names(first[0]))
        rest = await service.page_invocations(app_name=key.app_name, statuses=statuses, after=first)
        assert {one for one, _ in rest} == set(keys) - {first[0]}
        await paused(service, first[0])


async def test_pages_hold_copies_of_the_records(service, key):
    """TRAP-8: they are what `get_invocation` gives, and changing them changes nothing."""
    await paused(service, key)
    ((one, record),) = await service.page_invocations(app_name=key.app_name)
    assert record == await service.get_invocation(one, "i1")
    record.status = Status.COMPLETED
    assert (await service.get_invocation(key, "i1")).status is Status.PAUSED
    await abandon(service, key)
    assert await service.page_invocations(app_name=key.app_name, statuses={Status.PAUSED}) == []


async def test_unfit_pages_are_refused(service, key):
    """Unusable ids, and a page of none, are the caller's mistake."""
    for unfit in ({"app_name": ""}, {"user_id": "a\0"}, {"session_id": ""}, {"limit": 0}):
        with pytest.raises(InvalidRequestError):
            await service.page_invocations(**{"app_name": key.app_name} | unfit)
