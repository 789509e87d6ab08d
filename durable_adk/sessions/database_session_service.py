"""Sessions in a SQL database."""

import asyncio
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from durable_adk.errors import InvalidRequestError
from durable_adk.log import get_logger
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.watches import Changes, Watch
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql.polling import Poll
from durable_adk.sessions.sql.postgres import CommitNotifications, PostgresStore
from durable_adk.sessions.sql.sqlite import SqliteStore
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.database_url import file_of, is_in_memory, parse
from durable_adk.sql.migrate import SchemaVersion

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

logger = get_logger(__name__)


class DatabaseSessionService(SessionLog):
    """The session store in SQLite or PostgreSQL, shared by any number of processes.

    The first use creates the tables in an empty database, and upgrades a SQLite file of an older
    version of this package. It does not upgrade a PostgreSQL database, which other processes use as
    well: an outdated one is rejected until ``durable-adk db upgrade`` has been run.

    One object can be used from several event loops and threads.

    Args:
        db_url: A SQLAlchemy URL, e.g. ``sqlite:///sessions.db`` or
            ``postgresql://user:password@host/name``; a driver named in it is ignored.
            PostgreSQL needs the extra ``postgres``. ``sqlite:///:memory:`` is a temporary file that
            is deleted with this object.
        db_engine: Instead of the URL, a SQLAlchemy engine; only its URL is used, not its
            connections.
        **engine_options: Accepted for compatibility with ADK, and ignored.

    Raises:
        InvalidRequestError: The database is not supported, or not exactly one of `db_url` and
            `db_engine` is passed.
    """

    def __init__(
        self,
        db_url: str | URL | None = None,
        db_engine: "AsyncEngine | None" = None,
        **engine_options: Any,
    ) -> None:
        if engine_options:
            logger.warning("sessions.engine_options_ignored", options=sorted(engine_options))
        given = db_engine.url if db_engine is not None and db_url is None else db_url
        if given is None or (db_engine is not None and db_url is not None):
            raise InvalidRequestError("Give DatabaseSessionService either db_url or db_engine.")
        url = self._temporary_file() if is_in_memory(given) else parse(given)
        self.file: Path | None = file_of(url)
        """The file of a SQLite database; None for PostgreSQL."""
        self._sql = PostgresStore(url) if self.file is None else SqliteStore(self.file)
        super().__init__(self._sql)
        self._news = _news(self._sql, self._changes)

    def _temporary_file(self) -> URL:
        folder = tempfile.mkdtemp(prefix="durable-adk-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return URL.create("sqlite", database=str(Path(folder) / "sessions.db"))

    @property
    def database(self) -> PostgresDatabase | None:
        """The PostgreSQL database; None for SQLite."""
        return self._sql.database if isinstance(self._sql, PostgresStore) else None

    async def prepare(self) -> None:
        """Prepare the tables now instead of at the first use.

        Raises:
            SchemaOutdatedError: The tables of a PostgreSQL database have an older version.
            InvalidRequestError: The tables were written by a newer version of this package, or the
                database rejects the connection because of wrong credentials, name or permissions.
        """
        await self._sql.prepare()

    async def schema(self) -> SchemaVersion:
        """Read the version of the tables without changing anything.

        Raises:
            InvalidRequestError: The database rejects the connection, as for `prepare`.
        """
        return await self._sql.schema()

    async def upgrade(self) -> None:
        """Create the tables or upgrade them to this package's version.

        Waits for another process that is upgrading.

        Raises:
            InvalidRequestError: As for `prepare`.
        """
        await self._sql.upgrade()

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._news.stop()
        await self._sql.close()

    async def scrub(self) -> None:
        """Rewrite a SQLite file without deleted data; see `SessionLog.scrub`.

        Does nothing for PostgreSQL: its equivalent is ``VACUUM FULL``, which its operator must
        schedule.
        """
        if isinstance(self._sql, SqliteStore):
            await self._sql.scrub()

    def _saw(self, watch: Watch, head: Head | None) -> None:
        """See the base class; commits of other processes end the wait as well."""
        super()._saw(watch, head)
        self._news.follow(watch)

    async def changed(
        self,
        watch: Watch,
        *,
        timeout: float,  # noqa: ASYNC109  # as in the port
    ) -> None:
        """See `SessionLog.changed`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while (left := until - loop.time()) > 0:
            if await watch.wait(min(left, self._news.patience(watch))):
                return
            await self._news.check(watch)


class SqliteSessionService(DatabaseSessionService):
    """The session store in one SQLite file.

    Args:
        db_path: The file, or its URL, ``sqlite:///sessions.db``. The first use creates it and its
            folder.
    """

    def __init__(self, db_path: str | os.PathLike[str]) -> None:
        path = os.fspath(db_path)
        is_url = path.startswith(("sqlite:", "sqlite+"))
        super().__init__(path if is_url else URL.create("sqlite", database=path))


def _news(store: SqliteStore | PostgresStore, changes: Changes) -> Poll | CommitNotifications:
    """Build the task that wakes the watches when another process commits."""
    if isinstance(store, SqliteStore):
        return Poll(store, changes)
    return CommitNotifications(store, changes)
