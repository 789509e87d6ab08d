"""Sessions in a SQL database."""

import os
from pathlib import Path

from sqlalchemy import URL

from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql.database import PostgresDatabase
from durable_adk.sessions.sql.database_url import file_of, parse
from durable_adk.sessions.sql.polling import Poll
from durable_adk.sessions.sql.postgres import CommitNotices, PostgresStore
from durable_adk.sessions.sql.schema_version import SchemaVersion
from durable_adk.sessions.sql.sqlite import SqliteStore


class DatabaseSessionService(SessionLog):
    """The session store in SQLite or PostgreSQL, shared by any number of processes.

    An empty database gets its tables at the first use. A SQLite file of an older version of this
    package is upgraded then. A PostgreSQL database is not, because others use it as well: it is
    refused until ``durable-adk db upgrade`` has been run.

    One object serves several event loops and threads.

    Args:
        db_url: SQLAlchemy's URL, e.g. ``sqlite:///sessions.db`` or
            ``postgresql://user:password@host/name``; a driver named in it is not looked at.
            PostgreSQL needs the extra ``postgres``.

    Raises:
        InvalidRequestError: The URL is of no supported database, or of one in memory.
    """

    def __init__(self, db_url: str | URL) -> None:
        url = parse(db_url)
        self.file: Path | None = file_of(url)
        """The file of a SQLite database; None: it is another one."""
        self._sql = PostgresStore(url) if self.file is None else SqliteStore(self.file)
        super().__init__(self._sql)
        self._news = _news(self._sql, self._changes)

    @property
    def database(self) -> PostgresDatabase | None:
        """The PostgreSQL database; None: it is a SQLite file."""
        return self._sql.database if isinstance(self._sql, PostgresStore) else None

    async def prepare(self) -> None:
        """See to it that the tables are those of this code; otherwise done at the first use.

        Raises:
            SchemaOutdatedError: Those of a PostgreSQL database are older.
            InvalidRequestError: They were written by a newer version of this package, or the
                database lets nobody in who comes like this.
        """
        await self._sql.prepare()

    async def schema(self) -> SchemaVersion:
        """Which version the tables are of; nothing is changed.

        Raises:
            InvalidRequestError: The database lets nobody in who comes like this.
        """
        return await self._sql.schema()

    async def upgrade(self) -> None:
        """Make the tables, or bring them to the version of this code; waits for who does the same.

        Raises:
            InvalidRequestError: As for `prepare`.
        """
        await self._sql.upgrade()

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._news.stop()
        await self._sql.close()

    async def scrub(self) -> None:
        """See `BaseSessionService.scrub`; SQLite's file is written anew, without what was deleted.

        In PostgreSQL that is ``VACUUM FULL``, which only its operator can time.
        """
        if isinstance(self._sql, SqliteStore):
            await self._sql.scrub()

    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # as in the port
        """See `BaseSessionService.wait_for_change`; other processes are heard as well."""
        await self._sql.prepare()
        self._news.start()
        await super().wait_for_change(key, after=after, timeout=timeout)


class SqliteSessionService(DatabaseSessionService):
    """The session store in one SQLite file.

    Args:
        path: The file; it and its folder are created at the first use.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(URL.create("sqlite", database=os.fspath(path)))


def _news(store: SqliteStore | PostgresStore, changes: Changes) -> Poll | CommitNotices:
    """What wakes the watches when another process commits."""
    if isinstance(store, SqliteStore):
        return Poll(store, changes)
    return CommitNotices(store, changes)
