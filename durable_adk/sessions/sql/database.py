"""A PostgreSQL database, for all that keep something in it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, TypeVar

from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from durable_adk.errors import InvalidRequestError
from durable_adk.log import get_logger
from durable_adk.sessions.sql import migrate
from durable_adk.sessions.sql.database_url import for_driver, shown
from durable_adk.sessions.sql.forks import FirstUse
from durable_adk.sessions.sql.notices import Notices
from durable_adk.sessions.sql.schema_version import SchemaVersion
from durable_adk.sessions.sql.unavailable import misconfigured, translated

T = TypeVar("T")

_log = get_logger(__name__)

_SETTINGS = {
    "application_name": "durable-adk",
    "synchronous_commit": "on",
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
}
"""What is given up when the database or another process hangs (reliability 10). And that a commit
which is acknowledged is on disk, whatever the role's own settings say."""

_PATIENT = {"application_name": "durable-adk upgrade", "lock_timeout": "0"}
"""For an upgrade, which may have to wait for another one, and to build an index."""

_CONNECT = 5.0
"""Seconds until a connection is there, a new one or one of the pool."""

_COMMAND = 10.0
"""Seconds that an answer may take where the server cannot end the statement, being out of reach."""

_GRACE = 5.0
"""Seconds that transactions which are under way may take when the database is closed."""


@dataclass(frozen=True, slots=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    thread: Thread
    reader: AsyncEngine
    writer: AsyncEngine
    preparing: asyncio.Lock = field(default_factory=asyncio.Lock)


class PostgresDatabase:
    """One database, spoken to from one event loop in a thread of its own.

    A connection belongs to the loop it was made in, and callers' loops come and go (`Runner.run`
    makes one for each call): so none of theirs is used, and all share one pool.

    Args:
        url: Its URL, with any driver or none.
    """

    def __init__(self, url: URL) -> None:
        self.url = url
        self.shown = shown(url)
        """The URL without what is secret in it."""
        self.notices = Notices(self._start_loop, self._listening)
        self._lock = Lock()
        self._running: _Running | None = None
        self._ready = False
        self._use = FirstUse()

    async def prepare(self) -> None:
        """See to it that the tables are those of this code, once; an empty database gets them.

        Raises:
            SchemaOutdatedError: They are older.
            InvalidRequestError: They are newer, or the database lets nobody in who comes like this.
        """
        if not self._ready:
            await self._in_loop(self._prepare)

    async def schema(self) -> SchemaVersion:
        """Which version the tables are of; nothing is changed.

        Raises:
            InvalidRequestError: As for `prepare`.
        """
        return await self._in_loop(self._schema)

    async def upgrade(self) -> None:
        """Make the tables, or bring them to the version of this code; waits for who does the same.

        Raises:
            InvalidRequestError: They are newer, or as for `prepare`.
        """
        await self._in_loop(self._upgrade)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns for the database at one point in time."""
        await self.prepare()
        return await self._in_loop(lambda running: _transaction(running.reader, work))

    async def write(
        self, work: Callable[[Connection], T], *, committed: Callable[[], None] | None = None
    ) -> T:
        """What `work` returns; its changes happen as a whole, or not at all if it raises.

        Args:
            work: Runs in a transaction.
            committed: Called after it, also when the caller has left meanwhile.
        """

        async def transaction(running: _Running) -> T:
            result = await _transaction(running.writer, work)
            if committed is not None and self._running is running:  # else it is being closed
                committed()
            return result

        await self.prepare()
        return await self._in_loop(transaction)

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        with self._lock:
            running, self._running = self._running, None
            self._use = FirstUse()
        if running is not None:
            loop = running.loop
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(running), loop))
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(running.thread.join)
            loop.close()

    async def _in_loop(self, work: Callable[[_Running], Coroutine[Any, Any, T]]) -> T:
        """Do some work with the connections of now, although they may be closed meanwhile.

        Work that asked for them later would open others, in a loop that is about to end.
        """
        with translated():
            running = self._start()
            done = asyncio.run_coroutine_threadsafe(work(running), running.loop)
            return await asyncio.wrap_future(done)

    async def _prepare(self, running: _Running) -> None:
        # One at a time. A second one would wait for Alembic's turn, a lock of threads, and so stop
        # the loop that the first needs to find out that its connection is broken.
        async with running.preparing:
            if self._ready:
                return
            found = await self._schema(running)
            if found.empty:
                await self._migrate()
                _log.info("The database was empty; it has its tables now.", database=self.shown)
            else:
                found.require_current(self.shown)
            self._ready = True

    async def _upgrade(self, running: _Running) -> None:
        async with running.preparing:
            await self._migrate()

    async def _schema(self, running: _Running) -> SchemaVersion:
        with misconfigured(self.shown):
            async with running.writer.begin() as connection:
                return await connection.run_sync(migrate.schema)

    async def _migrate(self) -> None:
        with misconfigured(self.shown):
            async with _engine(self.url, _PATIENT, patient=True) as made, made.begin() as one:
                await one.run_sync(migrate.migrate)

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[Any]:
        """A connection of the driver's own, which no pool takes back."""
        settings = {**_SETTINGS, "application_name": "durable-adk notices"}
        async with _engine(self.url, settings) as engine, engine.connect() as connection:
            raw = await connection.get_raw_connection()
            yield raw.driver_connection

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        return self._start().loop

    def _start(self) -> _Running:
        self._use.check(self.shown)
        with self._lock:
            if self._running is None:
                self._running = _run(self.url)
            return self._running

    async def _end(self, running: _Running) -> None:
        """Close all connections; those that callers have left in a transaction after its end."""
        under_way = asyncio.all_tasks() - {asyncio.current_task()} - self.notices.tasks()
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.notices.close()
        await running.writer.dispose()


def _run(url: URL) -> _Running:
    made = _make_engine(url, _SETTINGS, pool_pre_ping=True, pool_timeout=_CONNECT)
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="session-store", daemon=True)
    thread.start()
    # One point in time for reads of several statements. Writers lock the session's row instead and
    # must see, having waited for it, what the one before them wrote.
    reader = made.execution_options(isolation_level="REPEATABLE READ")
    return _Running(loop, thread, reader, made)


def _make_engine(
    url: URL, settings: dict[str, str], *, patient: bool = False, **options: Any
) -> AsyncEngine:
    arguments: dict[str, Any] = {"timeout": _CONNECT, "server_settings": settings}
    if not patient:
        arguments["command_timeout"] = _COMMAND
    try:
        return create_async_engine(
            for_driver(url), connect_args=arguments, hide_parameters=True, **options
        )
    except ModuleNotFoundError as error:
        raise InvalidRequestError(
            'PostgreSQL needs a driver that is not installed: pip install "durable-adk[postgres]".'
        ) from error


@asynccontextmanager
async def _engine(
    url: URL, settings: dict[str, str], *, patient: bool = False
) -> AsyncGenerator[AsyncEngine]:
    """An engine for one connection."""
    made = _make_engine(url, settings, patient=patient, poolclass=NullPool)
    try:
        yield made
    finally:
        await made.dispose()


async def _transaction(engine: AsyncEngine, work: Callable[[Connection], T]) -> T:
    async with engine.begin() as connection:
        return await connection.run_sync(work)
