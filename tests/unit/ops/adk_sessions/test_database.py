"""Databases of google-adk's, without google-adk."""

import sqlite3

import pytest

from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.ops.adk_sessions.copies import copy_sessions
from durable_adk.ops.adk_sessions.database import open_database
from durable_adk.ops.adk_sessions.stored_sessions import StoredSessions
from durable_adk.sessions.database_session_service import SqliteSessionService
from durable_adk.sessions.in_memory_session_service import InMemorySessionService

SESSION = {"app_name": "shop", "user_id": "anna", "session_id": "s1"}


@pytest.fixture
async def store():
    """A store with a session whose events all have the same time."""
    made = InMemorySessionService()
    session = await made.create_session(**SESSION, state={"begun": 1, "user:u": 2, "app:a": 3})
    await grow(made, session, 0, 230)
    await made.create_session(**{**SESSION, "session_id": "empty"}, state={"only": None})
    return made


async def grow(store, session, start, upto) -> None:
    """Append events, whose ids sort in another order."""
    for n in range(start, upto):
        actions = EventActions(state_delta={"n": n, "user:last": n})
        event = Event(id=f"x{1000 - n}", author="user", timestamp=9.5, message=f"{n}")
        event.actions = actions
        await store.append_event(session, event)


async def contents(store) -> list:
    """All sessions of a store."""
    listed = (await store.list_sessions(app_name="shop")).sessions
    keys = sorted(one.key for one in listed)
    found = [(await store.get_session(**key._asdict())).to_value() for key in keys]
    # Databases of google-adk's keep microseconds.
    return [{**one, "lastUpdateTime": round(one["lastUpdateTime"], 6)} for one in found]


async def export(store, path):
    """Copy the store's sessions into a database."""
    async with open_database(str(path), is_target=True) as database:
        return await copy_sessions(StoredSessions(store=store), database)


async def test_a_copy_of_a_copy_is_the_original(store, tmp_path) -> None:
    """Through a database and back: the order too, which google-adk takes from the times."""
    report = await export(store, tmp_path / "adk.db")
    assert (report.sessions.copied, report.events.copied, report.problems) == (2, 230, [])
    back = InMemorySessionService()
    async with open_database(f"sqlite:///{tmp_path}/adk.db") as database:
        assert (await copy_sessions(database, back)).events.copied == 230
        again = await copy_sessions(database, back)
    assert (again.sessions.present, again.events.present, again.events.copied) == (2, 230, 0)
    assert await contents(back) == await contents(store)


async def test_an_export_is_continued(store, tmp_path) -> None:
    """What was said since is appended after the events of the same time."""
    await export(store, tmp_path / "adk.db")
    session = await store.get_session(**SESSION)
    await grow(store, session, 230, 235)
    report = await export(store, tmp_path / "adk.db")
    assert (report.sessions.continued, report.events.copied) == (1, 5)
    back = InMemorySessionService()
    async with open_database(str(tmp_path / "adk.db")) as database:
        await copy_sessions(database, back)
    copied = await back.get_session(**SESSION)
    assert [one.text for one in copied.events] == [str(n) for n in range(235)]
    assert copied.state["n"] == 234
    kept = [one.problem for one in report.problems]
    assert kept == ["state 'user:last' has another value, which is kept"]


@pytest.mark.parametrize("text", ["149", "x"])
async def test_a_changed_copy_is_left_alone(store, tmp_path, text) -> None:
    """One event with another content is enough, also if that is none."""
    path = tmp_path / "adk.db"
    await export(store, path)
    connection = sqlite3.connect(path)
    changed = "UPDATE events SET event_data = replace(event_data, '150', ?) WHERE id = 'x850'"
    assert connection.execute(changed, [text]).rowcount == 1
    connection.commit()
    connection.close()
    report = await export(store, path)
    assert (report.sessions.different, report.events.copied) == (1, 0)
    assert report.problems[-1].session == "s1"


async def open_only(url, *, is_target=False) -> None:
    """Open a database."""
    async with open_database(url, is_target=is_target):
        pass


async def test_what_is_no_database_of_google_adk_is_refused(tmp_path) -> None:
    """The error names it, and nothing is made."""
    (tmp_path / "text").write_text("hello")
    with pytest.raises(StoreUnavailableError, match="text cannot be used"):
        await open_only(str(tmp_path / "text"))
    with pytest.raises(InvalidRequestError, match="There is no database"):
        await open_only(str(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()
    ours = tmp_path / "ours.db"
    async with SqliteSessionService(ours) as store:
        await store.create_session(**SESSION)
    for is_target in (False, True):
        with pytest.raises(InvalidRequestError, match="no sessions of google-adk"):
            await open_only(str(ours), is_target=is_target)


async def test_another_schema_is_refused(store, tmp_path) -> None:
    """One of a later google-adk is not guessed, and another kind is not written to."""
    await export(store, tmp_path / "adk.db")
    connection = sqlite3.connect(tmp_path / "adk.db")
    connection.execute("UPDATE adk_internal_metadata SET value = '7'")
    connection.commit()
    with pytest.raises(InvalidRequestError, match="schema '7'"):
        await open_only(str(tmp_path / "adk.db"))
    connection.execute("DROP TABLE adk_internal_metadata")
    connection.commit()
    connection.close()
    with pytest.raises(InvalidRequestError, match="file of a SqliteSessionService"):
        await open_only(str(tmp_path / "adk.db"), is_target=True)
