"""The SQLite session store when there is no more room for it (F18)."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from durable_adk.errors import StoreUnavailableError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.sql import sqlite

KEY = SessionKey("app", "user", "session")
LARGE = "x" * 400_000
"""It is in the event and in the state."""
HALF = 500_000
"""Bytes: room for one of the two."""
PAGE = 4096
PLENTY = 2**30


async def opened(service: SqliteSessionService) -> None:
    """An invocation that has its first event."""
    user_event = Event(id="user", invocation_id="i1", author="user")
    await service.open_invocation(
        KEY, invocation_id="i1", lease_owner="local:1", user_event=user_event, create_session=True
    )


async def commit(service: SqliteSessionService, event_id: str, **delta: str) -> int:
    """An event with state."""
    event = Event(id=event_id, invocation_id="i1", actions=EventActions(state_delta=delta))
    return await service.commit_event(KEY, event, invocation_id="i1", epoch=1)


async def look(service: SqliteSessionService) -> list[Any]:
    """The ids of the events, the revision and the names in the state."""
    revision, state = await service.read_state(KEY)
    ids = [one.event.id for one in await service.read_events(KEY)]
    return [ids, revision, list(state)]


async def test_a_full_file_is_unavailable_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F18, I5: SQLite's own word for it is retried; nothing is half stored meanwhile."""
    connections: list[sqlite3.Connection] = []
    connect = sqlite._connect

    def listed(path: Path) -> sqlite3.Connection:
        connections.append(connect(path))
        return connections[-1]

    def room(pages: int) -> None:
        for connection in connections:
            with suppress(sqlite3.ProgrammingError):  # closed: of the first look at the tables
                connection.execute(f"PRAGMA max_page_count={pages}")

    monkeypatch.setattr(sqlite, "_connect", listed)
    service = SqliteSessionService(tmp_path / "s.db")
    await opened(service)
    room(connections[-1].execute("PRAGMA page_count").fetchone()[0] + HALF // PAGE)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="full"):
            await commit(service, "large", text=LARGE)
        assert await look(service) == [["user"], 1, []]
    room(PLENTY)
    assert [await commit(service, "large", text=LARGE) for _ in range(2)] == [2, 2]
    assert await look(service) == [["user", "large"], 2, ["text"]]
    await service.close()
