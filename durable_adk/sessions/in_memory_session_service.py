"""Sessions stored in the memory of the process."""

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from durable_adk.sessions.log.storage import T
from durable_adk.sessions.records import ListSessionsResponse
from durable_adk.sessions.session import Session
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql._tables import SqlTables
from durable_adk.sql.schema import METADATA


class InMemorySessionService(SessionLog):
    """The whole session store in memory, for tests and scripts; usable from any thread (TRAP-8)."""

    def __init__(self) -> None:
        super().__init__(DatabaseInMemory())

    def create_session_sync(self, **given: Any) -> Session:
        """Deprecated, as in ADK: `create_session` for code without an event loop."""
        return _at_once(self.create_session(**given))

    def get_session_sync(self, **given: Any) -> Session | None:
        """Deprecated, as in ADK: `get_session` for code without an event loop."""
        return _at_once(self.get_session(**given))

    def list_sessions_sync(self, **given: Any) -> ListSessionsResponse:
        """Deprecated, as in ADK: `list_sessions` for code without an event loop."""
        return _at_once(self.list_sessions(**given))

    def delete_session_sync(self, **given: Any) -> None:
        """Deprecated, as in ADK: `delete_session` for code without an event loop."""
        _at_once(self.delete_session(**given))


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own, so that it also works inside of an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class DatabaseInMemory:
    """Runs transactions on a SQLite database in memory, one at a time.

    A transaction takes less than a millisecond, so it runs in the caller's thread.
    """

    def __init__(self) -> None:
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
            hide_parameters=True,
        )
        METADATA.create_all(engine, checkfirst=False)
        self._lock = Lock()
        self._connection = engine.connect()
        weakref.finalize(self, engine.dispose)

    async def read(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.read`."""
        return self.run(work)

    async def write(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.write`."""
        return self.run(work)

    def run(self, work: Callable[[SqlTables], T]) -> T:
        """Run `work` in a transaction, which is rolled back if it raises."""
        with self._lock, self._connection.begin():
            return work(SqlTables(self._connection, lock=False))
