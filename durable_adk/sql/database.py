"""A PostgreSQL database, shared by all stores that use it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, Connection
from sqlalchemy.pool import NullPool

from durable_adk.calling.code_scope import keep_running
from durable_adk.errors import InvalidRequestError
from durable_adk.log import get_logger
from durable_adk.sql import migrate
from durable_adk.sql.database_url import for_driver, shown
from durable_adk.sql.forks import FirstUse
from durable_adk.sql.migrate import SchemaVersion
from durable_adk.sql.notifications import Notifications
from durable_adk.sql.unavailable import misconfigured, translated

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

T = TypeVar("T")

_log = get_logger(__name__)

_SETTINGS = {
    "application_name": "durable-adk",
    "synchronous_commit": "on",
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
}
"""Server settings of a connection. The timeouts end statements, lock waits and transactions when
the database or another process hangs. `synchronous_commit` overrides the role's
settings, so that every acknowledged commit is on disk."""

_PATIENT = {"application_name": "durable-adk upgrade", "lock_timeout": "0"}
"""Settings for an upgrade, which may have to wait for another upgrade or build an index."""

_CONNECT = 5.0
"""Timeout in seconds for opening a connection or getting one from the pool."""

_COMMAND = 10.0
"""Client-side timeout of a statement in seconds, for a server that has become unreachable."""

_GRACE = 5.0
"""Seconds that `close` waits for running transactions before it cancels them."""


@dataclass(frozen=True, slots=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    thread: Thread
    reader: "AsyncEngine"
    writer: "AsyncEngine"
    preparing: asyncio.Lock = field(default_factory=asyncio.Lock)


class PostgresDatabase:
    """One database, accessed from one event loop in a dedicated thread.

    A connection belongs to the loop that opened it, and callers' loops are short-lived
    (`Runner.run` creates one per call). A loop of its own lets all callers share one pool.

    Args:
        url: The database's URL; its driver is ignored.
    """

    def __init__(self, url: URL) -> None:
        self.url = url
        self.shown = shown(url)
        """The URL without its secrets."""
        self.notifications = Notifications(self._start_loop, self._listening)
        self._lock = Lock()
        self._running: _Running | None = None
        self._ready = False
        self._use = FirstUse()

    async def prepare(self) -> None:
        """Check the version of the tables once, and create them in an empty database.

        Raises:
            SchemaOutdatedError: The tables have an older version.
            InvalidRequestError: The tables have a newer version, or the database rejects the
                connection because of wrong credentials, name or permissions.
        """
        if not self._ready:
            await self._in_loop(self._prepare)

    async def schema(self) -> SchemaVersion:
        """Read the version of the tables without changing anything.

        Raises:
            InvalidRequestError: As for `prepare`.
        """
        return await self._in_loop(self._schema)

    async def upgrade(self) -> None:
        """Create the tables or upgrade them to this package's version.

        Waits for another process that is upgrading.

        Raises:
            InvalidRequestError: As for `prepare`.
        """
        await self._in_loop(self._upgrade)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a consistent snapshot of the database and return its result."""
        await self.prepare()
        return await self._in_loop(lambda running: _transaction(running.reader, work))

    async def write(
        self, work: Callable[[Connection], T], *, committed: Callable[[], None] | None = None
    ) -> T:
        """Run `work` in a transaction and return its result; roll back if it raises.

        Args:
            work: The synchronous function to run.
            committed: Called after the commit, even if the caller was cancelled meanwhile.
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
        """Run `work` with the current connections, even if they are closed meanwhile.

        If `work` looked the connections up later, it could open new ones in a loop that is ending.
        """
        with translated():
            running = self._start()
            done = asyncio.run_coroutine_threadsafe(work(running), running.loop)
            return await asyncio.wrap_future(done)

    async def _prepare(self, running: _Running) -> None:
        # One task at a time: a second one would block the loop on the thread lock that serializes
        # Alembic, and the first needs the loop to detect a broken connection.
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
        """Open a connection of the driver outside any pool."""
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
        """Close all connections, after running transactions have ended or `_GRACE` is over."""
        under_way = asyncio.all_tasks() - {asyncio.current_task()} - self.notifications.tasks()
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.notifications.close()
        await running.writer.dispose()


def _run(url: URL) -> _Running:
    made = make_engine(url, _SETTINGS, pool_pre_ping=True, pool_timeout=_CONNECT)
    loop = asyncio.new_event_loop()
    keep_running(loop, whoever=True)  # all callers would wait for a loop that has ended
    thread = Thread(target=loop.run_forever, name="session-store", daemon=True)
    thread.start()
    # Reads of several statements need one snapshot. Writers lock the session's row instead and,
    # after waiting for the lock, must see what the previous writer committed.
    reader = made.execution_options(isolation_level="REPEATABLE READ")
    return _Running(loop, thread, reader, made)


def make_engine(
    url: URL, settings: dict[str, str], *, patient: bool = False, **options: Any
) -> "AsyncEngine":
    """Return an engine for asyncpg.

    Args:
        url: The database's URL; its driver is ignored.
        settings: Settings of the server for each connection.
        patient: Whether statements have no time limit.
        **options: SQLAlchemy's.

    Raises:
        InvalidRequestError: The driver is not installed.
    """
    arguments: dict[str, Any] = {"timeout": _CONNECT, "server_settings": settings}
    if not patient:
        arguments["command_timeout"] = _COMMAND
    # Imported here: it loads SQLAlchemy's ORM, which a worker with a SQLite store does not need.
    create_async_engine = import_module("sqlalchemy.ext.asyncio").create_async_engine
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
) -> "AsyncGenerator[AsyncEngine]":
    """Create an engine for one connection."""
    made = make_engine(url, settings, patient=patient, poolclass=NullPool)
    try:
        yield made
    finally:
        await made.dispose()


async def _transaction(engine: "AsyncEngine", work: Callable[[Connection], T]) -> T:
    async with engine.begin() as connection:
        return await connection.run_sync(work)
