"""Sessions stored in the memory of the process."""

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any

from sqlalchemy.schema import CreateIndex, CreateTable

from durable_adk.sessions.log.storage import T
from durable_adk.sessions.records import ListSessionsResponse
from durable_adk.sessions.session import Session
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql.connections import DIALECT, in_transaction
from durable_adk.sessions.sql.tables import Tables
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

    A transaction is mostly short, so it runs in the caller's thread.
    """

    def __init__(self) -> None:
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._connection.executescript(_definitions())
        self._lock = Lock()
        weakref.finalize(self, self._connection.close)

    async def read(self, work: Callable[[Tables], T]) -> T:
        """See `Store.read`."""
        return self.run(work)

    async def write(self, work: Callable[[Tables], T]) -> T:
        """See `Store.write`."""
        return self.run(work)

    def run(self, work: Callable[[Tables], T]) -> T:
        """Run `work` in a transaction, which is rolled back if it raises."""
        with self._lock:
            return in_transaction(
                self._connection,
                lambda connection: work(Tables(connection, lock=False)),
            )


@cache
def _definitions() -> str:
    """Return the statements that create the tables and their indexes."""
    made: list[CreateTable | CreateIndex] = [CreateTable(one) for one in METADATA.tables.values()]
    made += [CreateIndex(one) for table in METADATA.tables.values() for one in table.indexes]
    return ";".join(str(one.compile(dialect=DIALECT)) for one in made)
