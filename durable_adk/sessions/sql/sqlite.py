"""The session store in a SQLite file."""

import asyncio
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, StaticPool, create_engine

from durable_adk.errors import StoreUnavailableError
from durable_adk.log import get_logger
from durable_adk.retrying import Deadline
from durable_adk.sessions.log.storage import T
from durable_adk.sessions.sql.connections import SqliteConnection, in_transaction
from durable_adk.sessions.sql.tables import Tables
from durable_adk.sql import migrate
from durable_adk.sql.forks import FirstUse
from durable_adk.sql.migrate import SchemaVersion
from durable_adk.sql.unavailable import translated, unavailable

logger = get_logger(__name__)

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process's write or in this process's queue."""

_READERS = 4
_STEPS, _SHORT = 500, 6
"""A read in an event loop's thread is stopped at the sixth report of 500 of SQLite's instructions;
measured, at 300 rows, after half a millisecond."""
_TOGETHER = 32
"""Maximum writes per commit."""


class SqliteStore:
    """Runs transactions on one file, for any event loop; each runs as a whole in one thread.

    An asyncio driver would switch threads for every call; measured, one switch per transaction
    takes a fifth of its CPU time per commit. A short read costs less than a switch, so it runs in
    the caller's thread; SQLite's readers do not wait for its writers. All writes of the process run
    in one thread, because SQLite permits one writer at a time and waits for others by sleeping and
    retrying. Those that wait for the thread share a transaction, because each commit waits for the
    disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writes = ThreadPoolExecutor(1, "session-writer")
        self._reads = ThreadPoolExecutor(_READERS, "session-reader")
        self._queue = deque[_QueuedWrite]()
        self._lock = Lock()
        self._idle = list[sqlite3.Connection]()
        """Open connections that no thread uses; another list once the file was closed."""
        self._opened: _OpenedFile | None = None
        self._use = FirstUse()

    async def prepare(self) -> None:
        """Create the file and its tables, or upgrade them to this package's version, once."""
        if self._opened is None:
            await self._in(self._writes, self._prepare)

    async def schema(self) -> SchemaVersion:
        """Read the version of the tables; a missing file is not created."""
        if not self.path.is_file():
            return SchemaVersion(None, migrate.HEAD)

        return await self._in(self._reads, lambda: _schema(self.path))

    async def upgrade(self) -> None:
        """Same as `prepare`: a file belongs to one machine, so its first use upgrades it."""
        await self.prepare()

    async def read(self, work: Callable[[Tables], T]) -> T:
        """See `Store.read`.

        A read that proves long, or would have to wait, runs again in a thread, so `work` must
        change nothing.
        """
        await self.prepare()
        self._use.check(str(self.path))

        def reading(connection: SqliteConnection) -> T:
            return work(Tables(connection, lock=False))

        opened = self._opened
        if opened is not None:  # else it was closed just now
            with suppress(sqlite3.Error, OSError):  # the thread waits, or finds the same error
                return opened.read(reading)
        return await self._in(self._reads, lambda: self._transaction("BEGIN", reading))

    async def write(self, work: Callable[[Tables], T]) -> T:
        """See `Store.write`.

        Transactions that wait for the thread at the same time share one commit and its disk write.
        """
        await self.prepare()  # before the deadline starts, which must not include migrations
        self._use.check(str(self.path))
        queued = _QueuedWrite(work, Deadline(BUSY_TIMEOUT))
        self._queue.append(queued)
        self._writes.submit(self._write_queued)
        with translated(f"session store {self.path}"):
            # If the caller is cancelled, a transaction that has begun is still committed.
            return await asyncio.wrap_future(queued.done)

    async def scrub(self) -> None:
        """Rewrite the file without deleted data, which free pages and the log still contain."""
        await self.prepare()
        await self._in(self._writes, lambda: scrub(self.path))

    async def close(self) -> None:
        """Close the file; the next call opens it again."""
        opened, self._opened = self._opened, None
        with self._lock:
            idle, self._idle = self._idle, []

        def close() -> None:
            for connection in idle:
                connection.close()
            if opened is not None:
                opened.close()

        await asyncio.to_thread(close)

    def version(self) -> "DataVersion":
        """Open a reader of the file's change counter."""
        return DataVersion(self.path)

    async def _in(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        # If the caller is cancelled, the thread still finishes, so a commit is never partial.
        self._use.check(str(self.path))
        with translated(f"session store {self.path}"):
            return await asyncio.get_running_loop().run_in_executor(executor, self._at_path, work)

    def _at_path(self, work: Callable[[], T]) -> T:
        """Run `work`, and return its result only if it used the file that is now at the path."""
        opened = self._opened
        if opened is not None:
            opened.files.check()
        result = work()
        if opened is not None and opened is self._opened:  # otherwise it was closed, with its log
            opened.files.check()
        return result

    def _write_queued(self) -> None:
        """Run all queued transactions in one; nothing if an earlier call has run them."""
        waiting = [self._queue.popleft() for _ in range(min(len(self._queue), _TOGETHER))]
        writes = [one for one in waiting if one.begin()]
        if not writes:
            return
        try:
            self._at_path(lambda: self._transaction("BEGIN IMMEDIATE", _running(writes)))
        except BaseException as error:  # noqa: BLE001 - raised in the tasks that wait
            for one in writes:
                one.done.set_exception(error)
        else:
            for one in writes:
                one.finish()

    def _transaction(self, begin: str, work: Callable[[SqliteConnection], T]) -> T:
        """Run a transaction on an idle connection, or on a new one."""
        with self._lock:
            idle = self._idle
            connection = idle.pop() if idle else None
        connection = connection or _connect(self.path)
        try:
            return in_transaction(connection, work, begin)
        finally:
            with self._lock:
                is_open = idle is self._idle
                if is_open:
                    idle.append(connection)
            if not is_open:
                connection.close()

    def _prepare(self) -> None:
        if self._opened is not None:
            return
        _create(self.path)
        if not _schema(self.path).current:
            migrate.load()  # before the lock, for which other processes wait only so long
            with _alchemy(self.path) as (raw, connection):
                raw.execute("BEGIN IMMEDIATE")
                migrate.migrate(connection)
                raw.execute("COMMIT")
        self._opened = _OpenedFile(self.path)


@dataclass
class _QueuedWrite:
    """A transaction that waits for the writer's thread."""

    work: Callable[[Tables], Any]
    deadline: Deadline
    done: Future[Any] = field(default_factory=Future[Any])
    result: Any = None
    error: Exception | None = None

    def begin(self) -> bool:
        """Return whether to run it: its caller waits for it, and has not waited for too long."""
        if not self.done.set_running_or_notify_cancel():
            return False
        if self.deadline.left() < 0:
            self.done.set_exception(unavailable("others have been waiting for too long"))
            return False
        return True

    def run(self, connection: SqliteConnection) -> None:
        """Run it in a transaction that runs others, too: an error undoes only its own changes."""
        try:
            with connection.savepoint() as within:
                self.result = self.work(Tables(within, lock=True))
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite has undone the others, too
            self.error = error

    def finish(self) -> None:
        """Hand the outcome to the caller, after the commit."""
        if self.error is None:
            self.done.set_result(self.result)
        else:
            self.done.set_exception(self.error)


def _running(writes: Sequence[_QueuedWrite]) -> Callable[[SqliteConnection], None]:
    def run(connection: SqliteConnection) -> None:
        if len(writes) == 1:  # what it raises undoes the whole transaction
            writes[0].result = writes[0].work(Tables(connection, lock=True))
            return
        for one in writes:
            one.run(connection)

    return run


class FilesAtPaths:
    """Detects that files were deleted or replaced.

    Data written to a file that is no longer at its path is lost when the file is closed, and no
    other process sees it.
    """

    def __init__(self, *paths: Path) -> None:
        self._known = {str(path): _identity(str(path)) for path in paths}
        self._logged = False

    def check(self) -> None:
        """Compare the files with those opened first; takes some microseconds.

        Raises:
            StoreUnavailableError: A file was deleted or replaced.
        """
        for path, known in self._known.items():
            if _identity(path) != known:
                if not self._logged:
                    logger.error("store.file_replaced", file=path)
                self._logged = True
                raise StoreUnavailableError(
                    f"The file {path} was deleted or replaced while this process was using it, so "
                    "the process reads and writes nothing more. Stop all processes that use it, "
                    "put back the right file, and start them again."
                )


class _OpenedFile:
    """A connection for short reads in event loops' threads, which never waits.

    While it is open, SQLite does not delete and recreate the log's files.
    """

    def __init__(self, path: Path) -> None:
        self._connection = _connect(path)
        self._connection.execute("PRAGMA schema_version").fetchone()  # reading opens the log
        self._connection.execute("PRAGMA busy_timeout=0")
        self._connection.set_progress_handler(self._is_long, _STEPS)
        self._lock = Lock()
        self._reached = 0
        real = os.path.realpath(path)  # the log's files are named after it
        self.files = FilesAtPaths(path, Path(f"{real}-wal"), Path(f"{real}-shm"))

    def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a read now.

        Raises:
            sqlite3.Error: It is not short, the file is locked or closed, or another thread reads.
        """
        if not self._lock.acquire(blocking=False):
            raise sqlite3.OperationalError("another thread is reading")
        try:
            self._reached = 0
            result = in_transaction(self._connection, work)
        finally:
            self._lock.release()
        self.files.check()  # of files that were replaced before, nothing is returned either
        return result

    def _is_long(self) -> bool:
        # SQLite adds up a statement's instructions over all its runs, so each of a short read's
        # statements, BEGIN and COMMIT among them, may report once.
        self._reached += 1
        return self._reached >= _SHORT

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


class DataVersion:
    """Reads a number that changes with every process's commits to the file, in microseconds."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)

    def read(self) -> int:
        """Read the current number; only comparisons with earlier reads are meaningful.

        Raises:
            StoreUnavailableError: The file is currently locked.
        """
        with translated():
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return version

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _identity(path: str) -> tuple[int, int] | None:
    """Return the identity of a file, different from a later one at its path; None if missing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - at each transaction; a Path takes three times as long
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _create(path: Path) -> None:
    """Create the file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
        switch_to_wal(connection)


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch a file permanently to a write-ahead log.

    The switch needs exclusive access and does not wait for it, so it is retried until it succeeds.
    """
    deadline = Deadline(BUSY_TIMEOUT)
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if deadline.left() < 0:
                raise
            time.sleep(0.01)
        else:
            return


def scrub(path: Path) -> None:
    """Rewrite a file without deleted data, and empty its write-ahead log.

    Raises:
        sqlite3.OperationalError: Other connections kept the file or its log locked.
    """
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError(f"database is locked: the log of {path} is in use")


def _connect(path: Path) -> sqlite3.Connection:
    # Without an isolation level the driver begins no transactions.
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous=FULL")  # an acknowledged commit survives power loss
    return connection


@contextmanager
def _alchemy(path: Path) -> Generator[tuple[sqlite3.Connection, Connection]]:
    """Open the file for migrations: as a connection of the driver's and of SQLAlchemy's in one."""
    with closing(_connect(path)) as raw:
        engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
        with engine.connect() as connection:
            yield raw, connection


def _schema(path: Path) -> SchemaVersion:
    with _alchemy(path) as (_, connection):
        return migrate.schema(connection)
