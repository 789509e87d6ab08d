"""The session store in a PostgreSQL database."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
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


@dataclass(frozen=True, slots=True)
class _Engines:
    reader: AsyncEngine
    writer: AsyncEngine


class PostgresStore:
    """One database. A connection belongs to the event loop it was made in: each has a pool."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engines: dict[asyncio.AbstractEventLoop, _Engines] = {}
        self._lock = Lock()
        self._ready = False

    async def prepare(self) -> None:
        """Create the tables, or bring them to the version of this code, once."""
        if self._ready:
            return
        with translated():
            async with self._here().writer.begin() as connection:
                await connection.run_sync(_migrate.migrate)
        self._ready = True

    async def read(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.read`."""
        return await self._run(self._here().reader, work, lock=False)

    async def write(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.write`."""
        return await self._run(self._here().writer, work, lock=True)

    async def close(self) -> None:
        """Close all connections, each in its own loop as far as that still runs."""
        with self._lock:
            engines, self._engines = self._engines, {}
        for loop, here in engines.items():
            await _dispose(loop, here.writer)

    async def _run(self, engine: AsyncEngine, work: Callable[[SqlTables], T], *, lock: bool) -> T:
        await self.prepare()
        with translated():
            async with engine.begin() as connection:
                return await connection.run_sync(lambda c: work(SqlTables(c, lock=lock)))

    def _here(self) -> _Engines:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._engines = {one: e for one, e in self._engines.items() if not one.is_closed()}
            if loop not in self._engines:
                self._engines[loop] = _connect(self._url)
            return self._engines[loop]


def _connect(url: URL) -> _Engines:
    arguments: dict[str, Any] = {"timeout": 5, "server_settings": _SETTINGS}
    engine = create_async_engine(url, connect_args=arguments, pool_pre_ping=True)
    # One point in time for reads of several statements. Writers lock the session's row instead and
    # must see, having waited for it, what the one before them wrote.
    return _Engines(engine.execution_options(isolation_level="REPEATABLE READ"), engine)


async def _dispose(loop: asyncio.AbstractEventLoop, engine: AsyncEngine) -> None:
    if loop is asyncio.get_running_loop():
        await engine.dispose()
    elif loop.is_running():
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(engine.dispose(), loop))
    else:
        await engine.dispose(close=False)  # nobody is left to speak on its sockets
