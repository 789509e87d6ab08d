"""The session store in a SQLite file."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event

from durable_adk.errors import StoreUnavailableError
from durable_adk.log import get_logger
from durable_adk.retrying import Deadline
from durable_adk.sessions.log.storage import T
from durable_adk.sessions.sql._tables import SqlTables
from durable_adk.sql import migrate
from durable_adk.sql.forks import FirstUse
from durable_adk.sql.migrate import SchemaVersion
from durable_adk.sql.unavailable import translated, unavailable

logger = get_logger(__name__)

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process's write or in this process's queue."""

_READERS = 4


class SqliteStore:
    """Runs transactions on one file; each runs as a whole in a thread, for any event loop.

    An asyncio driver would switch threads for every call; measured, one switch per transaction
    takes a fifth of its CPU time per commit. All writes of the process run in one thread, because
    SQLite permits one writer at a time and waits for others by sleeping and retrying.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)),
            # Without an isolation level the driver begins no transactions; `_begin` does.
            connect_args={
                "timeout": BUSY_TIMEOUT,
                "isolation_level": None,
                "check_same_thread": False,
            },
            hide_parameters=True,  # an error message must not quote a user's event
            pool_size=_READERS + 1,
            pool_timeout=BUSY_TIMEOUT,
        )
        event.listen(self._engine, "connect", _set_up)
        event.listen(self._engine, "begin", _begin)
        # Take the write lock first: a transaction that reads first and then finds the lock taken
        # can only fail.
        self._writer = self._engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")
        self._writes = ThreadPoolExecutor(1, "session-writer")
        self._reads = ThreadPoolExecutor(_READERS, "session-reader")
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

        def look() -> SchemaVersion:
            with self._engine.begin() as connection:
                return migrate.schema(connection)

        return await self._in(self._reads, look)

    async def upgrade(self) -> None:
        """Same as `prepare`: a file belongs to one machine, so its first use upgrades it."""
        await self.prepare()

    async def read(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.read`."""

        def transaction() -> T:
            with self._engine.begin() as connection:
                return work(SqlTables(connection, lock=False))

        await self.prepare()
        return await self._in(self._reads, transaction)

    async def write(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.write`."""
        await self.prepare()  # before the deadline starts, which must not include migrations
        deadline = Deadline(BUSY_TIMEOUT)

        def transaction() -> T:
            if deadline.left() < 0:
                raise unavailable("others have been waiting for too long")
            with self._writer.begin() as connection:
                return work(SqlTables(connection, lock=True))

        return await self._in(self._writes, transaction)

    async def scrub(self) -> None:
        """Rewrite the file without deleted data, which free pages and the log still contain."""
        await self.prepare()
        await self._in(self._writes, lambda: scrub(self.path))

    async def close(self) -> None:
        """Close the file; the next call opens it again."""
        opened, self._opened = self._opened, None
        await asyncio.to_thread(self._engine.dispose)
        if opened is not None:
            opened.close()

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

    def _prepare(self) -> None:
        if self._opened is not None:
            return
        _create(self.path)
        with self._engine.begin() as connection:
            found = migrate.schema(connection)
        if not found.current:
            with self._writer.begin() as connection:
                migrate.migrate(connection)
        self._opened = _OpenedFile(self.path)


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
    """A connection that keeps SQLite from deleting and recreating the log's files."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA schema_version").fetchone()  # reading opens the log
        real = os.path.realpath(path)  # the log's files are named after it
        self.files = FilesAtPaths(path, Path(f"{real}-wal"), Path(f"{real}-shm"))

    def close(self) -> None:
        """Close the connection."""
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


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    connection.execute("PRAGMA synchronous=FULL")  # an acknowledged commit survives power loss


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))
