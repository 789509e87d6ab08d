"""Short reads of a SQLite file run in the caller's thread; no read makes its event loop wait."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql import statements
from durable_adk.sessions.sql.sqlite import SqliteStore, _OpenedFile
from durable_adk.sessions.sql.tables import Tables, _params

KEY = SessionKey("app", "user", "session")
HERE = "here"
THREAD = "session-reader"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """One with a key of state."""
    made = SqliteStore(tmp_path / "s.db")
    await made.write(lambda tables: tables.put_state(KEY, {"a": "1"}))
    yield made
    await made.close()


class Reading:
    """A read of state that records where it runs."""

    def __init__(self) -> None:
        self.where = list[str]()
        self._caller = threading.current_thread()

    def __call__(self, tables: Tables) -> dict[str, str]:
        thread = threading.current_thread()
        self.where.append(HERE if thread is self._caller else thread.name.rpartition("_")[0])
        return tables.state(KEY)


def put(**state: str) -> Callable[[Tables], None]:
    return lambda tables: tables.put_state(KEY, state)


def opened(store: SqliteStore) -> _OpenedFile:
    assert store._opened is not None
    return store._opened


async def test_a_short_read_runs_here(store: SqliteStore) -> None:
    """It switches no thread, even while another connection writes."""
    began, goes_on = threading.Event(), threading.Event()

    def held(tables: Tables) -> None:
        tables.put_state(KEY, {"b": "1"})
        began.set()
        goes_on.wait(30)

    writing = asyncio.create_task(store.write(held))
    await asyncio.to_thread(began.wait)
    reading = Reading()
    assert await store.read(reading) == {"a": "1"}
    goes_on.set()
    await writing
    assert await store.read(reading) == {"a": "1", "b": "1"}
    assert reading.where == [HERE, HERE]


async def test_many_short_reads_run_here(store: SqliteStore) -> None:
    """SQLite adds up a statement's instructions over its runs; a read's count starts at 0."""
    reading = Reading()
    for _ in range(2_000):
        await store.read(reading)
    assert reading.where == [HERE] * 2_000


async def test_a_long_read_is_moved_to_a_thread(store: SqliteStore) -> None:
    """The loop does not wait for it, and it returns everything."""
    state = {f"k{number}": "1" for number in range(5_000)}
    await store.write(lambda tables: tables.put_state(KEY, state))
    reading = Reading()
    assert len(await store.read(reading)) == 5_001
    assert reading.where == [HERE, THREAD]
    connection = opened(store)._connection
    assert not connection.in_transaction


async def test_a_loop_does_not_wait_for_another_one_s_read(store: SqliteStore) -> None:
    """There is one connection for short reads; while another thread has it, a thread reads."""
    reading = Reading()
    with opened(store)._lock:
        assert await store.read(reading) == {"a": "1"}
    assert reading.where == [THREAD]


async def test_a_short_read_waits_for_no_lock(store: SqliteStore) -> None:
    """The thread waits for it, as long as any transaction."""
    assert list(opened(store)._connection.execute("PRAGMA busy_timeout")) == [(0,)]


async def test_a_read_of_a_file_that_is_being_closed(store: SqliteStore) -> None:
    """The connection may be closed between the look at it and the read."""
    opened(store).close()
    reading = Reading()
    assert await store.read(reading) == {"a": "1"}
    assert reading.where == [THREAD]


@pytest.mark.parametrize("leave", [ValueError, KeyboardInterrupt])
async def test_a_read_that_fails_keeps_no_view(
    store: SqliteStore, leave: Callable[..., BaseException]
) -> None:
    """Its error, which somebody keeps, holds the query's rows; later reads see later commits."""

    def fails(tables: Tables) -> Any:
        rows = tables._connection.rows(statements.STATE_OF, _params(KEY))
        raise leave(next(rows), rows)

    with pytest.raises((ValueError, KeyboardInterrupt)) as kept:
        await store.read(fails)
    other = SqliteStore(store.path)
    await other.write(lambda tables: tables.put_state(KEY, {"later": "1"}))
    await other.close()
    reading = Reading()
    assert await store.read(reading) == {"a": "1", "later": "1"}
    assert reading.where == [HERE]
    assert kept.value.args


async def test_reads_of_several_loops(store: SqliteStore) -> None:
    """Each is answered, whichever thread reads it; none sees part of a write."""

    async def reads() -> list[dict[str, str]]:
        return [await store.read(lambda tables: tables.state(KEY)) for _ in range(200)]

    async def writes() -> None:
        for number in range(50):
            await store.write(put(a=f"{number}", b=f"{number}"))

    await store.write(put(b="1"))
    loops = [asyncio.create_task(asyncio.to_thread(asyncio.run, reads())) for _ in range(4)]
    await writes()
    found = await asyncio.gather(*loops)
    assert all(one["a"] == one["b"] for many in found for one in many)
