"""Transactions on one database, from any number of event loops."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from sqlalchemy import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    TimeoutError as PoolTimeout,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.sessions import _migrate, _sqlite
from durable_adk.sessions._changes import Changes
from durable_adk.sessions._head import Head
from durable_adk.sessions._poll import poll
from durable_adk.sessions._sql_tables import SqlTables
from durable_adk.sessions.session import SessionKey

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
_TRANSIENT_SQLSTATES = ("08", "40", "53", "55", "57")
"""Connection, rollback, resources, locks, operator: PostgreSQL's classes of passing trouble."""


@dataclass(slots=True)
class _Local:
    """What belongs to one event loop; the pool's queue cannot be shared between two."""

    reader: AsyncEngine
    writer: AsyncEngine
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    poll: asyncio.Task[None] | None = None


class Database:
    """The store of the SQL session service."""

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self._locals: dict[asyncio.AbstractEventLoop, _Local] = {}
        self._lock = Lock()
        self._ready = False

    @property
    def path(self) -> Path | None:
        """The file, of a SQLite database."""
        return Path(str(self._url.database)) if self._is_sqlite else None

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    async def prepare(self) -> None:
        """Create the tables, or bring them to the version of this code."""
        with _translated():
            if self.path is not None:
                await asyncio.to_thread(_sqlite.create, self.path)
            local = await self._here()
            async with local.reader.connect() as connection:
                current = await connection.run_sync(_migrate.is_current)
            if not current:
                async with local.writer.begin() as connection:
                    await connection.run_sync(_migrate.migrate)
        self._ready = True

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[SqlTables]:
        """See `Store.reading`."""
        if not self._ready:
            await self.prepare()
        with _translated():
            local = await self._here()
            async with local.reader.begin() as connection:
                yield SqlTables(connection, lock=False)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[SqlTables]:
        """See `Store.writing`."""
        if not self._ready:
            await self.prepare()
        with _translated():
            local = await self._here()
            async with self._turn(local), local.writer.begin() as connection:
                yield SqlTables(connection, lock=True)

    async def heads_of(self, keys: Collection[SessionKey]) -> dict[SessionKey, Head | None]:
        """The sessions' rows, read at one point in time."""
        async with self.reading() as tables:
            found = await tables.heads_of(keys)
        return {key: found.get(key) for key in keys}

    async def poll(self, changes: Changes) -> None:
        """See to it that the watches of this loop hear of other processes' commits."""
        if not self._ready:
            await self.prepare()
        local = await self._here()
        if local.poll is None or local.poll.done():
            local.poll = asyncio.create_task(poll(changes, self.heads_of, self.path))

    async def close(self) -> None:
        """Close all connections, those of other loops included as far as they can be reached."""
        with self._lock:
            locals_, self._locals = self._locals, {}
        for loop, local in locals_.items():
            await _dispose(loop, local)

    async def _here(self) -> _Local:
        loop = asyncio.get_running_loop()
        with self._lock:
            local = self._locals.get(loop)
            if local is not None:
                return local
            local = self._locals[loop] = self._connect()
            gone = {
                other: self._locals.pop(other) for other in list(self._locals) if other.is_closed()
            }
        for other, left in gone.items():
            await _dispose(other, left)
        return local

    def _connect(self) -> _Local:
        if not self._is_sqlite:
            engine = create_async_engine(self._url, pool_pre_ping=True)
            return _Local(engine.execution_options(isolation_level="REPEATABLE READ"), engine)
        engine = create_async_engine(
            self._url, connect_args=_sqlite.CONNECT_ARGS, pool_timeout=_sqlite.BUSY_TIMEOUT
        )
        _sqlite.install(engine)
        return _Local(engine, engine.execution_options(**_sqlite.WRITING))

    @asynccontextmanager
    async def _turn(self, local: _Local) -> AsyncIterator[None]:
        """SQLite's writers of one loop queue here: its own way of waiting is to sleep and retry."""
        if not self._is_sqlite:
            yield
            return
        async with asyncio.timeout(_sqlite.BUSY_TIMEOUT):
            await local.turn.acquire()
        try:
            yield
        finally:
            local.turn.release()


async def _dispose(loop: asyncio.AbstractEventLoop, local: _Local) -> None:
    if loop is asyncio.get_running_loop() or not loop.is_running():
        await _close(local)
    else:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_close(local), loop))


async def _close(local: _Local) -> None:
    if local.poll is not None and not local.poll.get_loop().is_closed():
        local.poll.cancel()
    await local.reader.dispose()


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise InvalidRequestError(f"{url!r} is not a database URL.") from error
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise InvalidRequestError(
            f"{parsed.get_backend_name()!r} is not supported; use SQLite or PostgreSQL."
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidRequestError(
            "A SQLite database in memory has one connection and no durability; "
            "use InMemorySessionService."
        )
    return parsed.set(drivername=driver)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.OperationalError, OSError, TimeoutError) as error:
        if isinstance(error, DBAPIError) and not _is_transient(error):
            raise
        # Without the statement and its values: they are the user's, and errors travel far.
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise StoreUnavailableError(f"The session store does not answer: {cause}") from error


def _is_transient(error: DBAPIError) -> bool:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return (
        isinstance(error, (OperationalError, InterfaceError))
        or error.connection_invalidated
        or state.startswith(_TRANSIENT_SQLSTATES)
    )
