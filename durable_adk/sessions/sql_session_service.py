"""Sessions in a SQL database."""

import os

from durable_adk.sessions._database import Database
from durable_adk.sessions._transactional import TransactionalSessionService
from durable_adk.sessions.session import SessionKey


class DatabaseSessionService(TransactionalSessionService):
    """The session store in SQLite or PostgreSQL, shared by any number of processes.

    The tables are created at the first use. One object serves several event loops and threads.

    Args:
        db_url: SQLAlchemy's URL, e.g. ``sqlite+aiosqlite:///sessions.db`` or
            ``postgresql+asyncpg://user:password@host/name``.

    Raises:
        InvalidRequestError: The URL is of no supported database, or of one in memory.
    """

    def __init__(self, db_url: str) -> None:
        self._database = Database(db_url)
        super().__init__(self._database)

    async def prepare(self) -> None:
        """Create the tables or upgrade them; otherwise done at the first use.

        Raises:
            InvalidRequestError: They were written by a newer version of this package.
        """
        await self._database.prepare()

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        await self._database.close()

    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # as in the port
        """See `BaseSessionService.wait_for_change`; other processes are noticed by polling."""
        await self._database.poll(self._changes)
        await super().wait_for_change(key, after=after, timeout=timeout)


class SqliteSessionService(DatabaseSessionService):
    """The session store in one SQLite file.

    Args:
        path: The file; it and its folder are created at the first use.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(f"sqlite+aiosqlite:///{os.fspath(path)}")
