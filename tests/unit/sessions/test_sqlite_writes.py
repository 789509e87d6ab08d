"""Writes that wait for a SQLite file at the same time share a commit, and nothing else."""

import asyncio
import gc
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event as Gate
from typing import Any

import pytest

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql import connections, sqlite, statements
from durable_adk.sessions.sql.sqlite import SqliteStore
from durable_adk.sessions.sql.tables import Tables, _params
from tests.support.waiting import until

KEY = SessionKey("app", "user", "session")
OWN = SessionKey("app", "user", "")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty one."""
    made = SqliteStore(tmp_path / "s.db")
    await made.prepare()
    yield made
    await made.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Opened at the end, so that no thread waits for it for ever."""
    made = Gate()
    yield made
    made.set()


def put(name: str, *, error: Exception | None = None) -> Callable[[Tables], str]:
    """A transaction that stores a key, and may raise after it."""

    def work(tables: Tables) -> str:
        tables.put_state(KEY, {name: "1"})
        if error is not None:
            raise error
        return name

    return work


async def queued(store: SqliteStore, gate: Gate, *works: Any) -> list[asyncio.Task[Any]]:
    """The tasks of writes that wait behind one that waits for the gate."""
    began = Gate()

    def held(_: Tables) -> None:
        began.set()
        gate.wait(30)

    tasks = [asyncio.create_task(store.write(held))]
    await until(began.is_set)
    tasks += [asyncio.create_task(store.write(work)) for work in works]
    await until(lambda: len(store._queue) == len(works))
    return tasks[1:]


async def keys(store: SqliteStore) -> list[str]:
    """What is stored."""
    return sorted(await store.read(lambda tables: tables.state(KEY)))


def commits(store: SqliteStore) -> list[str]:
    """The commits from now on."""
    seen = list[str]()
    for connection in store._idle:
        connection.set_trace_callback(lambda one: seen.append(one) if one == "COMMIT" else None)
    return seen


async def test_writes_that_wait_share_a_commit(store: SqliteStore, gate: Gate) -> None:
    """The one that holds the thread has one, and all others together have the next."""
    await store.write(put("first"))
    seen = commits(store)
    tasks = await queued(store, gate, *(put(f"k{number}") for number in range(10)))
    gate.set()
    assert await asyncio.gather(*tasks) == [f"k{number}" for number in range(10)]
    assert len(seen) == 2
    assert len(await keys(store)) == 11


async def test_one_that_fails_fails_alone(store: SqliteStore, gate: Gate) -> None:
    """Its changes are undone; those before and after it are committed."""
    error = ValueError("no")
    tasks = await queued(store, gate, put("a"), put("b", error=error), put("c"))
    gate.set()
    assert await asyncio.gather(*tasks, return_exceptions=True) == ["a", error, "c"]
    assert await keys(store) == ["a", "c"]


async def test_one_that_fails_in_the_middle_of_a_query_keeps_no_view(
    store: SqliteStore, gate: Gate
) -> None:
    """Its error, which somebody keeps, holds the query's rows; later reads see later commits."""

    def work(tables: Tables) -> None:
        tables.put_state(KEY, {"x": "1", "y": "1"})
        rows = tables._connection.rows(statements.STATE_OF, _params(KEY))
        raise ValueError(next(rows))

    reading = store.read(work)
    together = await queued(store, gate, work, work)
    gate.set()
    kept = await asyncio.gather(reading, *together, return_exceptions=True)
    kept += await asyncio.gather(store.write(work), return_exceptions=True)
    other = SqliteStore(store.path)
    await other.write(put("later"))
    await other.close()
    assert store._opened is not None
    for connection in (store._opened._connection, *store._idle):
        assert connection.execute("SELECT key FROM state").fetchall() == [("later",)]
    assert store._idle
    assert all(isinstance(one, ValueError) for one in kept)


def test_a_statement_takes_what_was_compiled_with_it() -> None:
    """Those that are built for one call have values of users, and leave nothing."""
    gc.collect()
    before = len(connections._texts)
    with closing(sqlite3.connect(":memory:")) as raw:
        raw.execute("CREATE TABLE state (app_name, user_id, session_id, key, value)")
        for number in range(50):
            query = statements.states_of([SessionKey(f"app {number}", "user", "session")])
            assert list(connections.SqliteConnection(raw).rows(query, {})) == []
    del query
    gc.collect()
    assert len(connections._texts) == before


async def test_one_whose_caller_left_is_not_run(store: SqliteStore, gate: Gate) -> None:
    """A write that was cancelled before it began changes nothing."""
    left, stays = await queued(store, gate, put("a"), put("b"))
    left.cancel()
    await asyncio.wait({left})
    gate.set()
    assert await stays == "b"
    assert await keys(store) == ["b"]


async def test_none_is_acknowledged_if_the_commit_fails(
    store: SqliteStore, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them can be sent again."""
    tasks = await queued(store, gate, put("a"), put("b"))

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *values)

    idle, store._idle = store._idle, []
    monkeypatch.setattr(sqlite, "_connect", lambda path: _opened(path, Full))
    gate.set()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, StoreUnavailableError)
        assert "full" in str(outcome)
    monkeypatch.undo()
    for connection in (*idle, *store._idle):
        connection.close()
    store._idle = []
    assert await keys(store) == []


def _opened(path: Path, kind: type[sqlite3.Connection]) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=kind)
