"""Sessions in a SQL database."""

import os
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from durable_adk.errors import InvalidRequestError
from durable_adk.sessions._poll import Poll
from durable_adk.sessions._postgres import PostgresStore
from durable_adk.sessions._sqlite import SqliteStore
from durable_adk.sessions._transactional import TransactionalSessionService
from durable_adk.sessions.session import SessionKey


class DatabaseSessionService(TransactionalSessionService):
    """The session store in SQLite or PostgreSQL, shared by any number of processes.

    The tables are created at the first use. One object serves several event loops and threads.

    Args:
        db_url: SQLAlchemy's URL, e.g. ``sqlite:///sessions.db`` or
            ``postgresql://user:password@host/name``; a driver named in it is not looked at.

    Raises:
        InvalidRequestError: The URL is of no supported database, or of one in memory.
    """

    def __init__(self, db_url: str | URL) -> None:
        self._sql = _store(db_url)
        super().__init__(self._sql)
        self._poll = Poll(self._sql, self._changes)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database; None: it is another one."""
        return self._sql.path if isinstance(self._sql, SqliteStore) else None

    async def prepare(self) -> None:
        """Create the tables or upgrade them; otherwise done at the first use.

        Raises:
            InvalidRequestError: They were written by a newer version of this package.
        """
        await self._sql.prepare()

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._poll.stop()
        await self._sql.close()

    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # as in the port
        """See `BaseSessionService.wait_for_change`; other processes are noticed by polling."""
        await self._sql.prepare()
        self._poll.start()
        await super().wait_for_change(key, after=after, timeout=timeout)


class SqliteSessionService(DatabaseSessionService):
    """The session store in one SQLite file.

    Args:
        path: The file; it and its folder are created at the first use.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(URL.create("sqlite", database=os.fspath(path)))


def _store(db_url: str | URL) -> SqliteStore | PostgresStore:
    try:
        url = make_url(db_url)
    except ArgumentError as error:
        raise InvalidRequestError(f"{db_url!r} is not a database URL.") from error
    match url.get_backend_name():
        case "sqlite" if url.database in (None, "", ":memory:"):
            raise InvalidRequestError(
                "A SQLite database in memory keeps nothing; use InMemorySessionService."
            )
        case "sqlite":
            return SqliteStore(Path(str(url.database)))
        case "postgresql":
            return PostgresStore(url.set(drivername="postgresql+asyncpg"))
        case name:
            raise InvalidRequestError(f"{name!r} is not supported; use SQLite or PostgreSQL.")
