"""How every session service lists sessions, page by page."""

import base64
import json

import pytest

from durable_adk.errors import InvalidRequestError, PayloadTooLargeError
from durable_adk.sessions.log import listing
from durable_adk.sessions.records import SESSION_SIZE
from durable_adk.sessions.session import CHILD_PREFIX
from tests.unit.sessions.contract import event, names, opened

PAGES = [1, 2, 3, 7, 100]


async def made(service, key, count=7):
    """Sessions with updates at 1, 2, 3 ... far in the future, of two users; and a tool's."""
    keys = [key._replace(user_id=f"u{n % 2}", session_id=f"s{n}") for n in range(count)]
    for n, one in enumerate(keys):
        state = {"n": n, "user:n": n % 2, "app:a": "all"}
        session = await service.create_session(**names(one), state=state)
        await service.append_event(session, event("e", timestamp=4e9 + n))
    child = keys[0]._replace(session_id=f"{CHILD_PREFIX}call-1")
    await service.create_session(**names(child))
    return keys


async def pages(service, limit, **query):
    """The sessions of all pages, one page after the other."""
    token, found = None, []
    while True:
        page = await service.list_sessions(limit=limit, page_token=token, **query)
        assert len(page.sessions) <= limit
        found += page.sessions
        token = page.next_page_token
        if token is None:
            return found


@pytest.mark.parametrize("limit", PAGES)
async def test_pages_are_the_whole_list(service, key, limit):
    """However large the pages: the same sessions with the same state in the same order."""
    keys = await made(service, key)
    app = {"app_name": key.app_name}
    whole = await service.list_sessions(**app)
    assert whole.next_page_token is None
    assert [one.key for one in whole.sessions] == keys
    assert [one.state for one in whole.sessions][:2] == [
        {"n": 0, "user:n": 0, "app:a": "all"},
        {"n": 1, "user:n": 1, "app:a": "all"},
    ]
    assert await pages(service, limit, **app) == whole.sessions
    of_user = (await service.list_sessions(**app, user_id="u1")).sessions
    assert [one.key for one in of_user] == keys[1::2]
    assert await pages(service, limit, **app, user_id="u1") == of_user


@pytest.mark.parametrize("limit", PAGES)
async def test_the_newest_come_first_if_asked_for(service, key, limit):
    """The same list backwards, page by page."""
    keys = await made(service, key)
    found = await pages(service, limit, app_name=key.app_name, newest_first=True)
    assert [one.key for one in found] == keys[::-1]


@pytest.mark.parametrize("few", [1, 2, 20])
async def test_a_page_ends_by_the_size_of_its_states(service, key, monkeypatch, few):
    """A user's own state is in each of their sessions, so that a list may be as large as all."""
    monkeypatch.setattr(listing, "_FEW", few)
    keys = [key._replace(session_id=f"s{n}") for n in range(5)]
    for n, one in enumerate(keys):
        await service.create_session(**names(one), state={"user:a": "x" * 100, "b": n})
    query = {"app_name": key.app_name, "user_id": key.user_id, "max_size": 250}
    first = await service.list_sessions(**query)
    assert len(first.sessions) == 2
    assert [one.key for one in await pages(service, 3, **query)] == keys
    alone = await service.list_sessions(**query | {"max_size": 1})
    assert len(alone.sessions) == 1


async def test_a_session_that_is_too_large_is_not_read_as_a_whole(service, key):
    """Who reads it follows its events."""
    session = await service.create_session(**names(key))
    for n in range(3):
        await service.append_event(session, event(f"e{n}", text="x" * 1000))
    with pytest.raises(PayloadTooLargeError, match="2,000 characters"):
        await service.get_session(**names(key), max_size=2_000)
    with pytest.raises(PayloadTooLargeError, match="2,000 characters"):
        await service.read_events(key, max_size=2_000)
    assert len((await service.get_session(**names(key), max_size=10_000)).events) == 3
    assert len(await service.read_events(key, after=2, max_size=2_000)) == 1


async def test_all_are_listed_however_many(service, key, monkeypatch):
    """Without a limit, all are read, some at a time."""
    monkeypatch.setattr(listing, "_BATCH", 3)
    keys = await made(service, key, count=9)
    listed = (await service.list_sessions(app_name=key.app_name)).sessions
    assert [one.key for one in listed] == keys


async def test_only_the_latest_are_listed(service, key):
    """Those with an update at a time or later, with and without pages."""
    keys = await made(service, key)
    query = {"app_name": key.app_name, "updated_since": 4e9 + 4}
    assert [one.key for one in (await service.list_sessions(**query)).sessions] == keys[4:]
    assert [one.key for one in await pages(service, 2, **query)] == keys[4:]


async def test_no_session_falls_between_two_pages(service, key):
    """One that is updated meanwhile comes again at the end, one that is deleted does not."""
    keys = await made(service, key)
    first = await service.list_sessions(app_name=key.app_name, limit=3)
    moved = await service.get_session(**names(keys[0]))
    await service.append_event(moved, event("late", timestamp=5e9))
    await service.delete_session(**names(keys[2]))  # the one that the token names
    token = first.next_page_token
    rest = await service.list_sessions(app_name=key.app_name, page_token=token)
    assert [one.key for one in rest.sessions] == [*keys[3:], keys[0]]


def _changed(token, place, value):
    fields = json.loads(base64.urlsafe_b64decode(token))
    fields[place] = value
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()


async def test_a_token_that_was_not_given_is_refused(service, key):
    """S1: forged, cut, changed, or of another app or user: the error says so, and names nobody."""
    await made(service, key)
    app = {"app_name": key.app_name}
    token = (await service.list_sessions(**app, user_id="u1", limit=1)).next_page_token
    changes = [(0, "0"), (1, 0.5), (1, "x"), (2, "u0"), (3, "\x00"), (3, None)]
    forged = [_changed(token, place, value) for place, value in changes]
    for bad in ["", "x", "é", token[:-4], token[3:], "bnVsbA==", "W10=", *forged]:
        with pytest.raises(InvalidRequestError, match="page_token"):
            await service.list_sessions(**app, user_id="u1", page_token=bad)
    for other in ({"user_id": "u0"}, {}, {"app_name": "other", "user_id": "u1"}):
        with pytest.raises(InvalidRequestError, match="another"):
            await service.list_sessions(**{**app, **other}, page_token=token)
    assert (await service.list_sessions(**app, user_id="u1", page_token=token)).sessions


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_of_nothing_is_refused(service, key, limit):
    """Its token could not say where to continue."""
    with pytest.raises(InvalidRequestError, match="limit"):
        await service.list_sessions(app_name=key.app_name, limit=limit)


async def test_an_open_invocation_moves_its_session(service, key):
    """What counts is the update of the session, by whomever."""
    old, new = key._replace(session_id="old"), key._replace(session_id="new")
    await opened(service, old)
    await service.create_session(**names(new))
    await service.commit_event(old, event("c", timestamp=6e9), invocation_id="i1", epoch=1)
    listed = await service.list_sessions(app_name=key.app_name, limit=1)
    assert [one.key for one in listed.sessions] == [new]


async def test_what_a_user_has_stored_is_known(service, key):
    """Events, state and the sessions themselves, of one user in one app; deleting gives it back."""
    user = {"app_name": key.app_name, "user_id": key.user_id}

    async def size():
        return await service.stored_size(**user)

    assert await size() == 0
    await opened(service, key)  # an event in an invocation counts, too
    begun = await size()
    assert SESSION_SIZE < begun < 2 * SESSION_SIZE
    session = await service.get_session(**names(key))
    await service.append_event(session, event("long", text="x" * 5_000))
    stored = await service.append_event(session, event("last"))
    await service.append_event(session, stored)  # a repeat
    grown = await size()
    assert begun + 5_000 < grown < begun + 6_000
    second = key._replace(session_id="second")
    await service.create_session(**names(second), state={"a": "x" * 700, "user:b": "y" * 800})
    assert grown + SESSION_SIZE + 1_500 < await size() < grown + SESSION_SIZE + 2_500
    other = key._replace(user_id="another")
    await service.create_session(**names(other), state={"a": "x" * 9_000})
    await service.delete_session(**names(key))
    await service.delete_session(**names(second))
    assert 800 < await size() < 1_000, "what sessions share stays"
