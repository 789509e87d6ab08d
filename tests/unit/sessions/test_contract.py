"""What every session service keeps, run against each of them."""

import asyncio
import copy
import random
import time
from threading import Thread
from uuid import uuid4

import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings, strategies as st

from durable_adk.errors import (
    AlreadyExistsError,
    EventConflictError,
    InvalidRequestError,
    LeaseLostError,
    SessionBusyError,
    SessionNotFoundError,
    StaleSessionError,
    StateValueError,
)
from durable_adk.events import Event
from durable_adk.json_values import MAX_ID, MAX_KEY
from durable_adk.sessions import GetSessionConfig, SessionKey, Status
from durable_adk.sessions.log import feed
from durable_adk.sessions.session import CHILD_PREFIX
from tests.support.examples import examples
from tests.support.statements import counted
from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import (
    NEVER,
    abandon,
    ended,
    event,
    log,
    names,
    only_changes_wake,
    opened,
    waiter,
)

# ----- ADK's calls


async def test_created_session_is_read_back(service, key):
    """What create_session returns is what get_session reads; the id is stripped (SSN-2)."""
    created = await service.create_session(
        app_name=key.app_name, user_id=key.user_id, session_id=" session ", state={"a": [1.0, None]}
    )
    read = await service.get_session(**names(key))
    assert created == read
    assert (read.key, read.state, read.events, read.revision) == (key, {"a": [1.0, None]}, [], 0)


async def test_session_without_id_gets_one(service, key):
    """Sessions created without an id, or with a blank one, are different sessions (SSN-2)."""
    made = [
        await service.create_session(app_name=key.app_name, user_id=key.user_id, session_id=given)
        for given in (None, None, "", "  ")
    ]
    assert len({session.id.strip() for session in made} - {""}) == 4


async def test_taken_id_is_refused(service, key):
    """Creating a session twice raises and leaves the first as it is (SSN-3)."""
    await service.create_session(**names(key), state={"a": 1})
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**names(key), state={"a": 2, "app:b": 2})
    assert (await service.get_session(**names(key))).state == {"a": 1}


async def test_scopes(service, key):
    """App keys reach all, user keys the user's sessions, others one; temp none (STA-3, SSN-4)."""
    await service.create_session(**names(key), state={"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4})
    same_user = key._replace(session_id="other")
    other_user = key._replace(user_id="somebody else")
    assert (await service.create_session(**names(same_user))).state == {"app:a": 1, "user:u": 2}
    assert (await service.create_session(**names(other_user))).state == {"app:a": 1}
    assert (await service.get_session(**names(key))).state == {"app:a": 1, "user:u": 2, "s": 3}


async def test_what_a_session_was_created_with_is_kept(service, key):
    """REW-2: its own keys, whatever they are set to later; of a session made anew the new ones."""
    await service.create_session(**names(key), state={"a": [1], "user:u": 2, "temp:t": 3})
    await opened(service, key)
    await service.commit_event(key, event("e", delta={"a": 5, "b": 6}), invocation_id="i1", epoch=1)
    assert await service.read_initial_state(key) == {"a": [1]}
    await service.delete_session(**names(key))
    assert await service.read_initial_state(key) == {}
    await service.create_session(**names(key), state={"c": None})
    assert await service.read_initial_state(key) == {"c": None}
    other = key._replace(session_id="made by its first message")
    await opened(service, other)
    assert await service.read_initial_state(other) == {}


async def test_keys_are_not_joined(service, key):
    """Ids that look alike when joined are different sessions (isolation, I18)."""
    one = key._replace(user_id="a:b", session_id="c")
    two = key._replace(user_id="a", session_id="b:c")
    await service.create_session(**names(one), state={"user:x": 1})
    assert await service.get_session(**names(two)) is None
    assert (await service.create_session(**names(two))).state == {}


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "x" * 129, "\ud800", 5])
@pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
async def test_unusable_ids_are_refused(service, key, field, bad):
    """An id that does not survive logs and stores is refused by name."""
    if field == "session_id" and not str(bad).strip():
        return  # it gets a new one
    with pytest.raises(InvalidRequestError, match=field):
        await service.create_session(**{**names(key), field: bad})


async def test_state_that_is_not_json_is_refused(service, key):
    """A bad value is named by its key and nothing is stored (TRAP-21)."""
    with pytest.raises(StateValueError, match=r"state\['k'\]\[0\]"):
        await service.create_session(**names(key), state={"k": [{1, 2}]})
    assert await service.get_session(**names(key)) is None


async def test_copies(service, key):
    """Changing what was passed in or handed out changes nothing that others read (TRAP-8)."""
    state = {"l": [1], "user:d": {"a": 1}}
    created = await service.create_session(**names(key), state=state)
    appended = await service.append_event(created, event("e", delta={"m": [1]}))
    state["l"].append(2)
    created.state["user:d"]["a"] = 2
    created.events[0].content.parts[0].text = "changed"
    appended.actions.state_delta["m"].append(2)
    read = await service.get_session(**names(key))
    assert read.state == {"l": [1], "user:d": {"a": 1}, "m": [1]}
    assert read.events[0].text == "hello"
    assert read.events[0].actions.state_delta == {"m": [1]}


@pytest.mark.parametrize(
    ("config", "ids"),
    [
        ({}, "abcd"),
        ({"num_recent_events": 0}, ""),
        ({"num_recent_events": 2}, "cd"),
        ({"num_recent_events": 9}, "abcd"),
        ({"after_timestamp": 2.0}, "abd"),
        ({"after_timestamp": 2.0, "num_recent_events": 2}, "bd"),
    ],
)
async def test_events_are_chosen(service, key, config, ids):
    """First by time, inclusive, then the last N; the state is always complete (SSN-6, TRAP-16)."""
    session = await service.create_session(**names(key))
    for event_id, timestamp in zip("abcd", (2.0, 2.0, 1.0, 3.0), strict=True):
        await service.append_event(
            session, event(event_id, timestamp=timestamp, delta={"n": event_id})
        )
    read = await service.get_session(**names(key), config=GetSessionConfig(**config))
    assert "".join(e.id for e in read.events) == ids
    assert read.state == {"n": "d"}
    assert read.revision == 4


async def test_listing(service, key):
    """Sessions of one user or all, merged state, no events, oldest update first (SSN-8)."""
    keys = [key, key._replace(session_id="b"), key._replace(user_id="x", session_id="a")]
    for number, one in enumerate(keys):
        await service.create_session(**names(one), state={"user:who": one.user_id, "n": number})
    first = await service.get_session(**names(key))
    await service.append_event(first, event("e", timestamp=time.time() + 10))
    listed = (await service.list_sessions(app_name=key.app_name)).sessions
    assert [one.key for one in listed] == [keys[1], keys[2], keys[0]]
    assert [one.state for one in listed][1] == {"user:who": "x", "n": 2}
    assert not any(one.events for one in listed)
    of_user = (await service.list_sessions(app_name=key.app_name, user_id="user")).sessions
    assert [one.key for one in of_user] == [keys[1], keys[0]]
    assert of_user[0].state == {"user:who": "user", "n": 1}
    assert (await service.list_sessions(app_name="no such app")).sessions == []


async def test_conversations_with_tools_are_not_listed(service, key):
    """Sessions of agents used as tools are in no list, and otherwise like any (OPEN-6)."""
    child = key._replace(session_id=f"{CHILD_PREFIX}call-1")
    await service.create_session(**names(key))
    await opened(service, child, user_event=event("u", delta={"user:a": 1, "s": 2}))
    await service.commit_event(child, event("c"), invocation_id="i1", epoch=1)
    for user_id in (None, "user"):
        listed = await service.list_sessions(app_name=key.app_name, user_id=user_id)
        assert [one.key for one in listed.sessions] == [key]
    read = await service.get_session(**names(child))
    assert (read.state, read.revision) == ({"user:a": 1, "s": 2}, 2)
    assert (await service.get_session(**names(key))).state == {"user:a": 1}


async def test_user_state(service, key):
    """A user's own keys without prefix, as a copy, whichever session set them (SSN-13)."""

    async def user_state(**other):
        return await service.get_user_state(**{"app_name": key.app_name, "user_id": "user"} | other)

    assert await user_state() == {}
    await service.create_session(**names(key), state={"app:a": 1, "user:u": {"n": 2}, "s": 3})
    second = await service.create_session(**names(key._replace(session_id="b")))
    await service.append_event(second, event("e", delta={"user:user:v": None, "temp:t": 1}))
    (await user_state())["u"]["n"] = 5
    await service.delete_session(**names(key))
    assert await user_state(user_id=" user ") == {"u": {"n": 2}, "user:v": None}
    assert await user_state(user_id="somebody else") == await user_state(app_name="other") == {}
    with pytest.raises(InvalidRequestError, match="user_id"):
        await user_state(user_id="")


async def test_deleting(service, key):
    """Events, own state and invocations go, wider state stays, twice is no error (SSN-9)."""
    await opened(service, key, user_event=event("e", delta={"app:a": 1, "user:u": 2, "s": 3}))
    for _ in range(2):
        await service.delete_session(**names(key))
    assert await service.get_session(**names(key)) is None
    assert await service.read_events(key) == []
    assert await service.get_invocation(key, "i1") is None
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("c"), invocation_id="i1", epoch=1)
    again = await service.create_session(**names(key))
    assert (again.state, again.events) == ({"app:a": 1, "user:u": 2}, [])


# ----- append_event


async def test_appending_updates_the_copy_and_the_store(service, key):
    """Delta, event, revision and time reach both; temp keys only the copy (SSN-10, STA-6)."""
    session = await service.create_session(**names(key))
    now = time.time() + 1
    given_event = event("e", timestamp=now, delta={"a": None, "app:b": [1], "temp:t": {"x": 1}})
    before = copy.deepcopy(given_event)
    stored = await service.append_event(session, given_event)
    read = await service.get_session(**names(key))
    assert given_event == before
    assert stored.actions.state_delta == {"a": None, "app:b": [1]}
    assert read.events == session.events == [stored]
    assert session.state == {**read.state, "temp:t": {"x": 1}}
    assert read.state == {"a": None, "app:b": [1]}
    assert read.revision == session.revision == 1
    assert read.last_update_time == session.last_update_time == now


async def test_appended_event_gets_id_and_time(service, key):
    """An event without id and timestamp gets both from the store."""
    session = await service.create_session(**names(key))
    before = time.time()
    stored = await service.append_event(session, Event(author="user"))
    assert stored.id
    assert before <= stored.timestamp <= time.time()


async def test_partial_event_changes_nothing(service, key):
    """A partial event comes back untouched: no state, no event, no revision (FLW-71, SSN-10)."""
    session = await service.create_session(**names(key))
    before = session.model_copy(deep=True)
    partial = event("e", delta={"a": 1}, partial=True)
    assert await service.append_event(session, partial) is partial
    assert session == before == await service.get_session(**names(key))


async def test_appends_chain(service, key):
    """One copy takes any number of appends: it takes over each revision (SSN-10)."""
    session = await service.create_session(**names(key))
    for number in range(5):
        await service.append_event(session, event(f"e{number}", timestamp=100.0 - number))
    assert [e.id for e in session.events] == [f"e{number}" for number in range(5)]
    assert await log(service, key) == [(n + 1, f"e{n}") for n in range(5)]


async def test_stale_copy_is_refused(service, key):
    """A copy that misses an event may not append; wider scopes make no copy stale (SSN-30)."""
    await service.create_session(**names(key))
    mine, other = [await service.get_session(**names(key)) for _ in range(2)]
    neighbour = await service.create_session(**names(key._replace(session_id="n")))
    await service.append_event(neighbour, event("n", delta={"user:x": 1}))
    await service.append_event(other, event("a"))
    with pytest.raises(StaleSessionError):
        await service.append_event(mine, event("b", delta={"x": 1}))
    assert mine.events == []
    assert (await service.get_session(**names(key))).state == {"user:x": 1}


async def test_repeated_append_finds_its_first_attempt(service, key):
    """The same event again, also by a copy of before, is stored and applied once (TRAP-12)."""
    session = await service.create_session(**names(key))
    before = session.model_copy(deep=True)
    first = await service.append_event(session, event("e", delta={"n": 1}))
    again = await service.append_event(session, event("e", delta={"n": 1}, timestamp=9.0))
    late = await service.append_event(before, event("e", delta={"n": 1}))
    assert first == again == late
    assert session == before == await service.get_session(**names(key))
    await service.append_event(before, event("f"))


async def test_an_appended_object_knows_its_id(service, key):
    """An event that its maker gave no id is stored once too, however often it is appended."""
    session = await service.create_session(**names(key))
    made = Event(author="me", content=types.Content(role="model", parts=[types.Part(text="x")]))
    first = await service.append_event(session, made)
    assert (made.id, made.timestamp) == (first.id, first.timestamp)
    assert await service.append_event(session, made) == first
    assert session.events == (await service.get_session(**names(key))).events == [first]


async def test_other_content_under_a_taken_id_is_refused(service, key):
    """An id names one event for ever (SSN-12)."""
    session = await service.create_session(**names(key))
    await service.append_event(session, event("e"))
    for other in (event("e", text="bye"), event("e", delta={"n": 1}), event("e", "i2")):
        with pytest.raises(EventConflictError):
            await service.append_event(session, other)
    assert len(session.events) == 1


async def test_append_to_missing_session_is_refused(service, key):
    """A session that is not in storage takes no events (SSN-11)."""
    session = await service.create_session(**names(key))
    await service.delete_session(**names(key))
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event("e"))
    assert session.events == []


@pytest.mark.parametrize("ttl", [None, 10.0])
async def test_append_from_outside_does_not_disturb_a_run(service, key, ttl):
    """A run's next commit works after an append by others and gets the number after it (D7)."""
    await opened(service, key, ttl=ttl)
    session = await service.get_session(**names(key))
    await service.append_event(session, event("outside", "other", delta={"n": 1}))
    commit = {"invocation_id": "i1", "epoch": 1}
    assert await service.commit_event(key, event("c", delta={"n": 2}), **commit) == 3
    with pytest.raises(StaleSessionError):
        await service.append_event(session, event("late", "other"))
    closed = await service.close_invocation(key, **commit, status=Status.COMPLETED)
    assert (closed.start_seq, closed.end_seq) == (1, 3)
    assert await log(service, key) == [(1, "i1/user"), (2, "outside"), (3, "c")]
    assert await service.read_state(key) == (3, {"n": 2})


# ----- invocations


async def test_opening(service, key):
    """Opening stores lease, user event and its delta together (D7, TRAP-17)."""
    record = await opened(service, key, user_event=event("u", delta={"a": 1, "temp:t": 1}))
    assert (record.status, record.epoch, record.start_seq) == (Status.RUNNING, 1, 1)
    assert await service.read_state(key) == (1, {"a": 1})
    assert await log(service, key) == [(1, "u")]
    assert await service.active_invocation(key) == record
    assert await service.get_invocation(key, "i1") == record


async def test_opening_needs_a_session(service, key):
    """A missing session is refused unless it is to be created."""
    with pytest.raises(SessionNotFoundError):
        await opened(service, key, create_session=False)
    with pytest.raises(SessionNotFoundError):
        await service.read_state(key)
    assert await service.active_invocation(key) is None


async def test_repeated_opening_returns_the_record(service, key):
    """Opened again, running or closed, an invocation is as it is and nothing changes (TRAP-11)."""
    first = await opened(service, key)
    assert await opened(service, key) == first
    closed = await service.close_invocation(
        key, invocation_id="i1", epoch=1, status=Status.FAILED, error={"class": "ToolError"}
    )
    assert await opened(service, key) == closed
    assert await log(service, key) == [(1, "i1/user")]


async def test_invocation_id_names_one_request(service, key):
    """The same invocation id with another message is refused, open or closed."""
    await opened(service, key)
    with pytest.raises(EventConflictError):
        await opened(service, key, user_event=event("i1/user", text="something else"))
    with pytest.raises(EventConflictError):
        await opened(service, key, user_event=event("another id"))


async def test_user_event_belongs_to_one_invocation(service, key):
    """A user event's id that another invocation used opens nothing and takes no lease."""
    await opened(service, key, "i1", user_event=event("same", "i1"))
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    with pytest.raises(EventConflictError):
        await opened(service, key, "i2", user_event=event("same", "i2"))
    with pytest.raises(InvalidRequestError):
        await opened(service, key, "i2", user_event=event("same", "i1"))
    assert await service.active_invocation(key) is None
    assert await service.get_invocation(key, "i2") is None
    assert (await opened(service, key, "i3")).epoch == 2


async def test_one_invocation_at_a_time(service, key):
    """While one holds the lease another is refused; after it the next epoch begins (D7)."""
    await opened(service, key, "i1")
    with pytest.raises(SessionBusyError, match="i1"):
        await opened(service, key, "i2")
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    assert (await opened(service, key, "i2")).epoch == 2
    assert await log(service, key) == [(1, "i1/user"), (2, "i2/user")]


async def test_take_over(service, key):
    """An abandoned owner can neither write nor close any more, nor be abandoned twice (I6)."""
    await opened(service, key, "i1")
    await service.commit_event(key, event("c"), invocation_id="i1", epoch=1)
    assert await abandon(service, key) == await abandon(service, key)
    taken = await opened(service, key, "i2")
    old = await service.get_invocation(key, "i1")
    assert (taken.epoch, old.status, old.end_seq) == (2, Status.ABANDONED, 2)
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("d"), invocation_id="i1", epoch=1)
    with pytest.raises(LeaseLostError):
        await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    with pytest.raises(SessionBusyError):
        await opened(service, key, "i3")
    assert await service.active_invocation(key) == taken


async def test_lease_with_ttl_expires_unless_used(service, key, monkeypatch):
    """Commits and renewals keep a lease; after ttl of silence others may take it."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    await opened(service, key, "i1", ttl=10.0)
    for _ in range(3):
        now += 9
        await service.renew(key, invocation_id="i1", epoch=1)
        now += 9
        await service.commit_event(key, event(f"c{now}"), invocation_id="i1", epoch=1)
    now += 9
    with pytest.raises(SessionBusyError):
        await opened(service, key, "i2")
    now += 2
    assert await service.active_invocation(key) is None
    # Nobody has taken it yet, so its lease owner may go on.
    await service.commit_event(key, event("late"), invocation_id="i1", epoch=1)
    now += 11
    assert (await opened(service, key, "i2")).epoch == 2
    await service.renew(key, invocation_id="i1", epoch=1)
    assert (await service.get_invocation(key, "i1")).status is Status.ABANDONED


async def test_refused_opening_abandons_nobody(service, key, monkeypatch):
    """An opening that fails for its event's id leaves the owner of an expired lease as it is."""
    record = await opened(service, key, "i1", ttl=1.0)
    later = time.time() + 2
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(EventConflictError):
        await opened(service, key, "i2", user_event=event("i1/user", "i2"))
    assert await service.get_invocation(key, "i1") == record
    assert await service.commit_event(key, event("c"), invocation_id="i1", epoch=1) == 2


async def test_lease_without_ttl_stays(service, key, monkeypatch):
    """A workflow's lease does not expire: its end can be looked up."""
    await opened(service, key, "i1")
    later = time.time() + 1e6
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(SessionBusyError):
        await opened(service, key, "i2")


async def test_closing(service, key):
    """Closing gives the lease back, notes how it ended, and a repeat changes nothing."""
    await opened(service, key)
    await service.commit_event(key, event("c"), invocation_id="i1", epoch=1)
    closing = {"invocation_id": "i1", "epoch": 1}
    error = {"class": "ToolError", "message": "\u20ac"}
    closed = await service.close_invocation(key, **closing, status=Status.FAILED, error=error)
    assert (closed.status, closed.end_seq, closed.error) == (Status.FAILED, 2, error)
    again = await service.close_invocation(key, **closing, status=Status.COMPLETED)
    assert again == closed == await service.get_invocation(key, "i1")
    assert await service.active_invocation(key) is None
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("d"), invocation_id="i1", epoch=1)


async def test_only_the_owner_closes(service, key):
    """A wrong epoch, an unknown invocation or no ending is refused, and the lease stays."""
    await opened(service, key)
    for wrong in ({"invocation_id": "i1", "epoch": 2}, {"invocation_id": "ix", "epoch": 1}):
        with pytest.raises(LeaseLostError):
            await service.close_invocation(key, **wrong, status=Status.COMPLETED)
    for going_on in (Status.RUNNING, Status.PAUSED):
        with pytest.raises(InvalidRequestError):
            await service.close_invocation(key, invocation_id="i1", epoch=1, status=going_on)
        with pytest.raises(InvalidRequestError):
            await service.commit_event(
                key, event("c"), invocation_id="i1", epoch=1, closing=going_on
            )
    assert await log(service, key) == [(1, "i1/user")]
    assert (await service.active_invocation(key)).invocation_id == "i1"


# ----- commits


async def test_commits_are_numbered_in_order(service, key):
    """Order is the sequence, 1, 2, 3, whatever the timestamps say (I3, TRAP-15)."""
    await opened(service, key)
    seqs = [
        await service.commit_event(
            key, event(f"c{n}", timestamp=100.0 - n, delta={"n": n}), invocation_id="i1", epoch=1
        )
        for n in range(3)
    ]
    assert seqs == [2, 3, 4]
    assert await log(service, key) == [(1, "i1/user"), (2, "c0"), (3, "c1"), (4, "c2")]
    assert await service.read_state(key) == (4, {"n": 2})


async def test_reading_a_range(service, key):
    """read_events gives what is after a number, up to another, at most so many."""
    await opened(service, key)
    for n in range(4):
        await service.commit_event(key, event(f"c{n}"), invocation_id="i1", epoch=1)

    async def seqs(**window):
        return [stored.seq for stored in await service.read_events(key, **window)]

    assert await seqs(after=2) == [3, 4, 5]
    assert await seqs(after=1, upto=3) == [2, 3]
    assert await seqs(limit=2) == [1, 2]
    assert await seqs(after=5) == await seqs(limit=0) == []


async def test_repeated_commit_changes_nothing(service, key):
    """A repeat returns the first number, also when the lease is gone (I1, TRAP-11, TRAP-12)."""
    await opened(service, key, "i1")
    commit = {"invocation_id": "i1", "epoch": 1}
    seq = await service.commit_event(key, event("c", delta={"n": 1}), **commit)
    await service.commit_event(key, event("d", delta={"n": 2}), **commit)
    again = event("c", delta={"n": 1, "temp:x": "of another attempt"}, timestamp=5.0)
    assert await service.commit_event(key, again, **commit) == seq
    await abandon(service, key)
    await opened(service, key, "i2")
    assert await service.commit_event(key, again, **commit) == seq
    assert await service.read_state(key) == (4, {"n": 2})


async def test_conflicting_commit_is_refused(service, key):
    """Other content under a stored id is refused, with the lease or without (SSN-12)."""
    await opened(service, key)
    commit = {"invocation_id": "i1", "epoch": 1}
    await service.commit_event(key, event("c", delta={"n": 1}), **commit)
    for epoch in (1, 2):
        with pytest.raises(EventConflictError):
            await service.commit_event(
                key, event("c", delta={"n": 2}), invocation_id="i1", epoch=epoch
            )
    assert await service.read_state(key) == (2, {"n": 1})


async def test_commit_needs_the_lease(service, key):
    """A wrong invocation, a wrong epoch or a missing session cannot write (I6)."""
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("c"), invocation_id="i1", epoch=1)
    await opened(service, key)
    for invocation_id, epoch in (("i1", 2), ("i1", 0), ("i2", 1)):
        with pytest.raises(LeaseLostError):
            await service.commit_event(
                key,
                event("c", invocation_id, delta={"n": 1}),
                invocation_id=invocation_id,
                epoch=epoch,
            )
    assert await service.read_state(key) == (1, {})


async def test_unfit_events_are_refused(service, key):
    """Partial, nameless, foreign or un-JSON events are never stored."""
    await opened(service, key)
    for unfit in (event("c", partial=True), event(""), event("c", "i2")):
        with pytest.raises(InvalidRequestError):
            await service.commit_event(key, unfit, invocation_id="i1", epoch=1)
    for unfit in (event("c", delta={"n": {1}}), event("c", text="\ud800")):
        with pytest.raises(StateValueError):
            await service.commit_event(key, unfit, invocation_id="i1", epoch=1)
    assert len(await service.read_events(key)) == 1


def varied(characters: int) -> str:
    """Text of four bytes a character that cannot be compressed."""
    dice = random.Random(characters)
    return "".join(chr(dice.randrange(0x10000, 0x10FFFF)) for _ in range(characters))


async def test_keys_and_ids_are_as_long_as_every_index_can_hold(service):
    """I13: the longest are stored everywhere; longer ones are refused, and nothing else is lost."""
    key = SessionKey(*(varied(MAX_ID) for _ in range(3)))
    longest = varied(MAX_KEY // 4)
    await opened(service, key, longest[:MAX_ID])
    owner = {"invocation_id": longest[:MAX_ID], "epoch": 1}
    delta = {longest: 1, "user:" + longest[2:]: 2}
    await service.commit_event(key, event(longest, owner["invocation_id"], delta=delta), **owner)
    too_long = event("c", owner["invocation_id"], delta={longest + "x": 1})
    with pytest.raises(StateValueError, match="1000 bytes"):
        await service.commit_event(key, too_long, **owner)
    with pytest.raises(InvalidRequestError, match="1000 bytes"):
        await service.commit_event(key, event(longest + "x", owner["invocation_id"]), **owner)
    assert (await service.read_state(key))[1] == delta


async def test_temp_is_nowhere(service, key):
    """Temporary keys are in no stored event and no state (I4, TRAP-7)."""
    await opened(service, key, user_event=event("u", delta={"temp:a": 1}))
    await service.commit_event(key, event("c", delta={"temp:b": 1}), invocation_id="i1", epoch=1)
    session = await service.get_session(**names(key))
    assert "temp:" not in session.to_json()


async def test_events_come_back_equal(service, key):
    """Bytes, nulls, odd characters and numbers survive the store."""
    await opened(service, key)
    parts = [
        types.Part(text="\x00 \u2028 \U0001f600 \u20ac '\"; --"),
        types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="x/y")),
        types.Part(function_response=types.FunctionResponse(name="f", response={"result": None})),
    ]
    rich = event("c", delta={"a": None, "b": [0.1, 1.0, 2**70, True], "\u20ac": {"z": 1, "a": 2}})
    rich.content.parts = parts
    rich.long_running_tool_ids = {"x", "y"}
    await service.commit_event(key, rich, invocation_id="i1", epoch=1)
    (stored,) = await service.read_events(key, after=1)
    assert stored.event == rich
    _, state = await service.read_state(key)
    assert state == rich.actions.state_delta
    assert list(state["\u20ac"]) == ["z", "a"]
    assert isinstance(state["b"][1], float)


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "app:a", "user:a", "temp:a"]), st.integers(), max_size=4
        ),
        max_size=8,
    )
)
async def test_state_is_the_fold_of_the_deltas(service, deltas):
    """State equals the committed deltas merged in order; each delta counts once (I4)."""
    key = SessionKey(f"app-{uuid4()}", "user", "session")
    await opened(service, key)
    fold: dict = {}
    for number, delta in enumerate(deltas):
        for _ in range(2):
            await service.commit_event(
                key, event(f"c{number}", delta=delta), invocation_id="i1", epoch=1
            )
        fold |= {name: value for name, value in delta.items() if not name.startswith("temp:")}
    assert await service.read_state(key) == (len(deltas) + 1, fold)


async def test_concurrent_commits_are_all_kept(service, key):
    """Commits made at once get different numbers without gaps, and repeats the same one (I1)."""
    await opened(service, key)
    tasks = [
        service.commit_event(
            key, event(f"c{n % 10}", delta={f"k{n % 10}": n % 10}), invocation_id="i1", epoch=1
        )
        for n in range(30)
    ]
    seqs = await asyncio.gather(*tasks)
    assert sorted(set(seqs)) == list(range(2, 12))
    assert seqs[:10] == seqs[10:20] == seqs[20:]
    assert await service.read_state(key) == (11, {f"k{n}": n for n in range(10)})


async def test_one_of_many_openers_wins(service, key):
    """Of invocations that are opened at once one gets the lease, also for a new session (I6)."""
    results = await asyncio.gather(
        *(opened(service, key, f"i{n}") for n in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, SessionBusyError) for one in results) == 7
    assert len(await service.read_events(key)) == 1


async def test_one_of_many_creators_wins(service, key):
    """Of equal sessions created at once one is, the others get an error (SSN-3)."""
    results = await asyncio.gather(
        *(service.create_session(**names(key)) for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, AlreadyExistsError) for one in results) == 7


# ----- loops, waiting


def in_own_loop(work):
    """Run a coroutine function in a thread with an event loop of its own, as Runner.run does."""
    failed = []

    def run():
        try:
            asyncio.run(work())
        except Exception as error:  # noqa: BLE001  # handed to the test's own thread
            failed.append(error)

    thread = Thread(target=run)
    thread.start()
    return thread, failed


async def test_many_loops_share_a_service(service, key):
    """One service object serves several threads' loops at once, and loops that have ended."""
    await opened(service, key)

    async def work():
        for n in range(10):
            await service.commit_event(key, event(f"{uuid4()}-{n}"), invocation_id="i1", epoch=1)

    for _ in range(2):
        started = [in_own_loop(work) for _ in range(3)]
        await work()
        for thread, failed in started:
            await asyncio.to_thread(thread.join)
            assert not failed
    assert [seq for seq, _ in await log(service, key)] == list(range(1, 82))


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_waiting_ends_with_a_commit(service, key, elsewhere, monkeypatch):
    """A waiter is woken by a commit of its process, from whatever loop (D8)."""
    only_changes_wake(monkeypatch)
    await opened(service, key)
    waiting = await waiter(service, key)

    async def commit():
        await service.commit_event(key, event("c"), invocation_id="i1", epoch=1)

    if elsewhere:
        thread, failed = in_own_loop(commit)
        await asyncio.to_thread(thread.join)
        assert not failed
    else:
        await commit()
    await ended(waiting)


@pytest.mark.parametrize(("most", "size"), [(3, 10**6), (50, 1), (50, 1000)])
async def test_pages_have_all_events(service, key, monkeypatch, most, size):
    """Each is bounded in number and size, and has at least one event, however large."""
    monkeypatch.setattr(feed, "_PAGE", most)
    monkeypatch.setattr(feed, "_PAGE_SIZE", size)
    await opened(service, key)
    for number in range(7):
        new = event(f"e{number}", text="x" * (200 if number != 3 else 3000))
        await service.commit_event(key, new, invocation_id="i1", epoch=1)
    found, more = [], True
    while more:
        page, more = await service.read_page(key, after=len(found), upto=8)
        *others, _ = [len(one.event.to_json()) for one in page] or [0]
        assert len(page) <= most
        assert sum(others) < size
        assert page or not more
        found += page
    assert found == await service.read_events(key)
    assert await service.read_page(key, after=8) == ([], False)


async def test_waiting_ends_with_a_close(service, key, monkeypatch):
    """Closing an invocation wakes a waiter although there is no new event."""
    only_changes_wake(monkeypatch)
    await opened(service, key)
    waiting = await waiter(service, key)
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    await ended(waiting)


async def test_waiting_does_not_outlast_its_time(service, key, monkeypatch):
    """Events that are there end a wait at once; without changes it lasts as long as requested."""
    only_changes_wake(monkeypatch)
    await opened(service, key)
    await asyncio.wait_for(service.wait_for_change(key, after=0, timeout=NEVER), PATIENCE)
    now = asyncio.get_running_loop().time

    async def lasts():
        began = now()
        await service.wait_for_change(key, after=1, timeout=0.1)
        return now() - began >= 0.1

    await until(lasts)  # an announcement that comes late ends one early
    await service.wait_for_change(key._replace(user_id="nobody"), after=0, timeout=0.01)


async def test_a_turn_writes_with_few_statements(service, key):
    """Each is a round trip to PostgreSQL, and on SQLite another wait for Python's lock."""
    await log(service, key)  # it is prepared
    closing = {"invocation_id": "i1", "epoch": 1, "closing": Status.COMPLETED}
    for turn in (
        [
            (6, lambda: opened(service, key)),
            (3, lambda: service.commit_event(key, event("a"), invocation_id="i1", epoch=1)),
            (6, lambda: service.commit_event(key, event("b"), **closing)),
        ],
        [(6, lambda: opened(service, key, "i2"))],
    ):
        for number, write in turn:
            with counted() as run:
                await write()
            assert len(run) == number
    assert [record.status for record in await records(service, key)] == [
        Status.COMPLETED,
        Status.RUNNING,
    ]
    assert [seq for seq, _ in await log(service, key)] == [1, 2, 3, 4]


async def records(service, key):
    return [await service.get_invocation(key, name) for name in ("i1", "i2")]
