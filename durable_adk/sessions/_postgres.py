"""The session store in a PostgreSQL database."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from durable_adk.sessions import _migrate
from durable_adk.sessions._sql_tables import SqlTables
from durable_adk.sessions._tables import T
from durable_adk.sessions._unavailable import translated

_SETTINGS = {
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
}
"""What is given up when the database or another process hangs (reliability 10)."""

_GRACE = 5.0
"""Seconds that transactions which are under way may take when the store is closed."""


@dataclass(frozen=True, slots=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    thread: Thread
    reader: AsyncEngine
    writer: AsyncEngine
    migrating: asyncio.Lock = field(default_factory=asyncio.Lock)


class PostgresStore:
    """One database, spoken to from one event loop in a thread of its own.

    A connection belongs to the loop it was made in, and callers' loops come and go (`Runner.run`
    makes one for each call): so none of theirs is used, and all share one pool.
    """

    def __init__(self, url: URL) -> None:
        self._url = url
        self._lock = Lock()
        self._running: _Running | None = None
        self._ready = False

    async def prepare(self) -> None:
        """Create the tables, or bring them to the version of this code, once."""
        if not self._ready:
            await self._in_loop(self._migrate())

    async def read(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.read`."""
        await self.prepare()
        return await self._in_loop(_transaction(self._start().reader, work, lock=False))

    async def write(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.write`."""
        await self.prepare()
        return await self._in_loop(_transaction(self._start().writer, work, lock=True))

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            loop = running.loop
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_end(running), loop))
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(running.thread.join)
            loop.close()

    async def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        with translated():
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(work, self._start().loop)
            )

    async def _migrate(self) -> None:
        running = self._start()
        # One at a time. A second one would wait for Alembic's turn, a lock of threads, and so stop
        # the loop that the first needs to find out that its connection is broken.
        async with running.migrating:
            if self._ready:
                return
            async with running.writer.begin() as connection:
                await connection.run_sync(_migrate.migrate)
            self._ready = True

    def _start(self) -> _Running:
        with self._lock:
            if self._running is None:
                self._running = _run(self._url)
            return self._running


def _run(url: URL) -> _Running:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="session-store", daemon=True)
    thread.start()
    arguments: dict[str, Any] = {"timeout": 5, "command_timeout": 10, "server_settings": _SETTINGS}
    engine = create_async_engine(
        url,
        connect_args=arguments,
        pool_pre_ping=True,
        pool_timeout=5,
        hide_parameters=True,
    )
    # One point in time for reads of several statements. Writers lock the session's row instead and
    # must see, having waited for it, what the one before them wrote.
    reader = engine.execution_options(isolation_level="REPEATABLE READ")
    return _Running(loop, thread, reader, engine)


async def _end(running: _Running) -> None:
    """Close all connections; those that callers have left in a transaction after its end."""
    under_way = asyncio.all_tasks() - {asyncio.current_task()}
    if under_way:
        _, late = await asyncio.wait(under_way, timeout=_GRACE)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    await running.writer.dispose()


async def _transaction(engine: AsyncEngine, work: Callable[[SqlTables], T], *, lock: bool) -> T:
    async with engine.begin() as connection:
        return await connection.run_sync(lambda inner: work(SqlTables(inner, lock=lock)))
