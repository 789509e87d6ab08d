"""What a SQLite file needs that other databases do not."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process's write (reliability 10)."""

CONNECT_ARGS: dict[str, Any] = {"timeout": BUSY_TIMEOUT, "isolation_level": None}
"""Without an isolation level the driver begins nothing by itself; `install` does."""

WRITING = {"sqlite_begin": "BEGIN IMMEDIATE"}
"""Execution options of a transaction that will write: it takes the write lock first, because one
that reads first and then finds the lock taken can only fail."""


def create(path: Path) -> None:
    """Make the file's folder, and switch the file to a write-ahead log, which is for good.

    The switch needs the file for itself and does not wait for it, so it is tried until it works.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + BUSY_TIMEOUT
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return


def install(engine: AsyncEngine) -> None:
    """Make the engine's commits survive power loss and its transactions begin as asked."""
    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "begin", _begin)


def _set_up(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


class DataVersion:
    """A number that changes with every commit to the file by anyone, microseconds to read."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)

    def read(self) -> int:
        """The number now; it means something only beside one read before.

        Raises:
            sqlite3.OperationalError: The file is locked just now.
        """
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return version

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
