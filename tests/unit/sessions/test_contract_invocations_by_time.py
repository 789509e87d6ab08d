"""How every session service finds invocations by time and by id, run against each of them."""

import time

import pytest

from durable_adk.sessions import Status
from durable_adk.sessions.log.storage import InvocationPosition
from durable_adk.sessions.records import OPEN
from durable_adk.sessions.session import CHILD_PREFIX
from tests.unit.sessions.contract import opened, paused

ORDER = [("u", "a", "i1"), ("v", "a", "i2"), ("u", "b", "i3"), ("u", "c", "i4")]
"""User, session and invocation; the last one is the newest."""


@pytest.fixture
async def filled(service, key, monkeypatch):
    """A service with paused invocations, of which the newest runs; two have the same time."""
    clock = iter([1.0, 2.0, 2.0, 3.0])
    for user, session, name in ORDER:
        now = next(clock)
        monkeypatch.setattr(time, "time", lambda now=now: now)
        where = key._replace(user_id=user, session_id=session)
        await (opened if name == "i4" else paused)(service, where, name)
    return service


async def listed(service, key, **options):
    """The names of a page."""
    found = await service.invocations_by_time(app_name=key.app_name, **options)
    return [record.invocation_id for _, record in found]


async def test_the_newest_come_first(filled, key):
    """Of an app, a user, a session or a status."""
    assert await listed(filled, key) == ["i4", "i2", "i3", "i1"]
    assert await listed(filled, key, user_id="u") == ["i4", "i3", "i1"]
    assert await listed(filled, key, session_id="a") == ["i2", "i1"]
    assert await listed(filled, key, statuses={Status.PAUSED}) == ["i2", "i3", "i1"]
    assert await listed(filled, key._replace(app_name="other")) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["i4", "i2", "i3", "i1"]),
        ({"statuses": OPEN}, ["i4", "i2", "i3", "i1"]),
        ({"statuses": OPEN, "user_id": "u"}, ["i4", "i3", "i1"]),
        ({"statuses": OPEN, "session_id": "a"}, ["i2", "i1"]),
        ({"user_id": "u", "session_id": "a"}, ["i1"]),
        ({"statuses": OPEN, "user_id": "u", "session_id": "a"}, ["i1"]),
    ],
)
async def test_a_page_goes_on_where_the_last_one_ended(filled, key, options, expected):
    """In both directions, whatever the search is narrowed to."""
    for oldest_first in (False, True):
        seen, beyond = [], None
        while page := await filled.invocations_by_time(
            app_name=key.app_name, limit=1, beyond=beyond, oldest_first=oldest_first, **options
        ):
            ((where, record),) = page
            seen.append(record.invocation_id)
            beyond = InvocationPosition.of(where, record)
        assert seen == (expected[::-1] if oldest_first else expected)


async def test_invocations_are_counted_by_status(filled, key):
    """Of an app, or of a user; an agent that runs as a tool is part of the run that called it."""
    await paused(filled, key._replace(user_id="v", session_id=f"{CHILD_PREFIX}a"), "child")
    counts = await filled.count_invocations(app_name=key.app_name)
    assert dict(counts) == {Status.PAUSED: 3, Status.RUNNING: 1}
    counts = await filled.count_invocations(app_name=key.app_name, user_id="v")
    assert dict(counts) == {Status.PAUSED: 1}


async def test_an_id_leads_to_its_sessions(filled, key):
    """Also where clients have chosen the same one for two sessions."""
    await opened(filled, key._replace(user_id="w"), "i1")
    found = await filled.sessions_with("i1")
    assert sorted(one.user_id for one in found if one.app_name == key.app_name) == ["u", "w"]
    assert await filled.sessions_with("nobody") == []


async def test_events_are_counted_by_invocation(filled, key):
    """Those of others in its session are not its own."""
    where = key._replace(user_id="u", session_id="a")
    first = await filled.get_invocation(where, "i1")
    await opened(filled, where, "other")
    assert await filled.count_events(where, first) == 1
