"""What the doctor reads of sessions' logs: only those that are meant, and a page at a time."""

from typing import Any

import pytest

from durable_adk.events import Event, EventActions
from durable_adk.ops.doctor import broken_logs as module
from durable_adk.ops.doctor.broken_logs import broken_logs
from durable_adk.ops.doctor.findings import Kind
from durable_adk.ops.doctor.sources import Sources
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.in_memory_session_service import DatabaseInMemory
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import CHILD_PREFIX


class Sessions(InMemorySessionService):
    """A store that knows how many events it has returned at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    async def read_events(self, *args: Any, **options: Any) -> list[StoredEvent]:
        """See base class."""
        found = await super().read_events(*args, **options)
        self.most = max(self.most, len(found))
        return found


async def talked(sessions: Sessions, key: SessionKey, number: int, name: str = "i") -> None:
    """An invocation that has ended, with so many events, each of which changes the state."""
    first = Event(id=f"{name}.0", invocation_id=name, author="user", timestamp=1.0)
    record = await sessions.open_invocation(
        key, invocation_id=name, lease_owner="local:1", user_event=first, create_session=True
    )
    for n in range(1, number):
        event = Event(
            id=f"{name}.{n}",
            invocation_id=name,
            author="a",
            timestamp=1.0,
            actions=EventActions(state_delta={f"k{n % 7}": n}),
        )
        await sessions.commit_event(key, event, invocation_id=name, epoch=record.epoch)
    await sessions.close_invocation(
        key, invocation_id=name, epoch=record.epoch, status=Status.COMPLETED
    )


def sources(sessions: Sessions, **options: Any) -> Sources:
    """A store that is looked at without a Temporal."""
    return Sources(client=None, sessions=sessions, **options)  # pyright: ignore[reportArgumentType]


KEY = SessionKey("app", "u", "s")


async def problems(sessions: Sessions) -> list[str]:
    """What is wrong with the session's log."""
    records = [record async for _, record in sessions.all_invocations(**KEY._asdict())]
    cases = await broken_logs(sessions, KEY, records)
    assert {case.finding.kind for case in cases} <= {Kind.BROKEN_LOG}
    return [case.finding.problem for case in cases]


def change(sessions: Sessions, *statements: str) -> None:
    """Write to the tables as no release does."""
    store = sessions._store
    assert isinstance(store, DatabaseInMemory)
    for one in statements:
        store.run(lambda tables, one=one: tables._connection._connection.execute(one))


@pytest.mark.parametrize("page", [1, 7, 1000])
async def test_a_log_is_looked_through_page_by_page(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22, I3, I4: however long a session is, the doctor has a page of it in memory."""
    monkeypatch.setattr(module, "PAGE", page)
    sessions = Sessions()
    await talked(sessions, KEY, 50)
    await talked(sessions, KEY, 10, name="j")
    assert await problems(sessions) == []
    assert sessions.most <= page
    change(
        sessions,
        """UPDATE state SET value = '"something else"' WHERE key = 'k3'""",
        "UPDATE invocations SET start_seq = 50 WHERE invocation_id = 'j'",
        "UPDATE events SET body = (SELECT body FROM events WHERE seq = 30) WHERE seq = 31",
    )
    assert await problems(sessions) == [
        "these events are stored twice: i.29",
        "invocation j starts at event 50 according to its record, but that event is not its own",
        "the state differs from the events for the keys k3",
    ]
    change(sessions, "DELETE FROM events WHERE seq > 45")
    (first, *_) = await problems(sessions)
    assert first == "of 60 events these are missing: 46, 47, 48, 49, 50, 51, 52, 53, 54, 55"


async def found(store: Sessions, **options: Any) -> set[SessionKey]:
    """The sessions that are looked at."""
    return {key async for key in sources(store, **options).session_keys()}


async def test_every_session_that_is_meant_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of agents used as tools, and those without an invocation, too; no others."""
    sessions = Sessions()
    keys = [
        *(SessionKey("app", "u", f"s{n}") for n in range(450)),
        SessionKey("app", "u", f"{CHILD_PREFIX}c"),
        SessionKey("app", "v", "s"),
        SessionKey("zoo", "u", "s"),
    ]
    for key in keys:
        await talked(sessions, key, 1)
    empty = SessionKey("app", "w", "empty")
    await sessions.create_session(app_name="app", user_id="w", session_id="empty")
    assert await found(sessions) == {*keys, empty}
    assert await found(sessions, app="zoo") == {keys[-1]}
    assert await found(sessions, app="app", user="v") == {keys[-2]}
    assert await found(sessions, session="s") == {keys[-1], keys[-2]}
    assert await found(sessions, app="nothing") == set()


async def test_sessions_that_have_not_changed_since_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I22: a daily look costs what a day has brought."""
    sessions = Sessions()
    old, new = SessionKey("app", "u", "old"), SessionKey("app", "u", "new")
    children = [one._replace(session_id=CHILD_PREFIX + one.session_id) for one in (old, new)]
    for now, several in ((1_000.0, (old, children[0])), (2_000.0, (new, children[1]))):
        monkeypatch.setattr("time.time", lambda now=now: now)
        for key in several:
            await talked(sessions, key, 3)
    assert await found(sessions, since=1_500.0) == {new, children[1]}
    assert await found(sessions, since=500.0) == {old, new, *children}
