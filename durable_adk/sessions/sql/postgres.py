"""The session store in a PostgreSQL database."""

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from sqlalchemy import URL, Connection

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.log.storage import T
from durable_adk.sessions.log.watches import Changes, Watch, topic
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.connections import AlchemyConnection
from durable_adk.sessions.sql.tables import Tables
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.migrate import SchemaVersion
from durable_adk.sql.notifications import Listener

CHANNEL = "durable_adk_commits"
"""Channel on which processes announce changed sessions to each other."""


class PostgresStore:
    """Runs transactions in a PostgreSQL database and announces their commits.

    The announcement is sent in a separate transaction after the commit, because PostgreSQL
    serializes the commits, disk writes included, of transactions that send notifications. An
    announcement can be lost, for example if the process dies in between. Waiters tolerate this:
    from time to time they compare all watched sessions with the database.
    """

    def __init__(self, url: URL) -> None:
        self.database = PostgresDatabase(url)
        self.name = secrets.token_hex(4)
        """Sender in announcements. A process wakes its own watches directly and ignores its own."""

    async def prepare(self) -> None:
        """See `PostgresDatabase.prepare`."""
        await self.database.prepare()

    async def schema(self) -> SchemaVersion:
        """See `PostgresDatabase.schema`."""
        return await self.database.schema()

    async def upgrade(self) -> None:
        """See `PostgresDatabase.upgrade`."""
        await self.database.upgrade()

    async def read(self, work: Callable[[Tables], T]) -> T:
        """See `Store.read`."""
        return await self.database.read(
            lambda inner: work(Tables(AlchemyConnection(inner), lock=False))
        )

    async def write(self, work: Callable[[Tables], T]) -> T:
        """See `Store.write`."""
        changed: set[SessionKey] = set()

        def transaction(connection: Connection) -> T:
            tables = Tables(AlchemyConnection(connection), lock=True)
            result = work(tables)
            changed.update(tables.changed)
            return result

        def tell() -> None:
            texts = [f"{self.name} {topic(key)}" for key in changed]
            self.database.notifications.send(CHANNEL, *texts)

        return await self.database.write(transaction, committed=tell)

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        await self.database.close()


_PATIENCE, _LONG_PATIENCE = 0.5, 10.0
"""Seconds between comparisons with the database, in case announcements were lost: of sessions in
which an invocation runs, and of all others."""


class CommitNotifications:
    """Wakes the watches of sessions that other processes change.

    The watched sessions are compared with the database, many in one statement, when listening
    starts or restarts, and from time to time.
    """

    def __init__(self, store: PostgresStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._listener: Listener | None = None
        self._looking: asyncio.Task[None] | None = None
        self._compared = {True: -math.inf, False: -math.inf}
        """When all sessions were last compared (False), or those in which an invocation runs
        (True)."""

    def follow(self, watch: Watch) -> None:  # noqa: ARG002  # as for the other store
        """Listen on behalf of a watch that has just read its row, until `stop`."""
        if self._listener is None:
            self._listener = Listener(
                channel=CHANNEL, on_message=self._on_message, resumed=self._resumed
            )
            self._store.database.notifications.listen(self._listener)

    def patience(self, watch: Watch) -> float:
        """Return the seconds to wait before `check`."""
        return _PATIENCE if watch.active else _LONG_PATIENCE

    async def check(self, watch: Watch) -> None:
        """Compare all watched sessions that are due."""
        self.follow(watch)
        now = time.monotonic()
        if now - self._compared[watch.active] >= self.patience(watch):
            self._compared[watch.active] = now
            watches = self._changes.current()
            await self._compare([one for one in watches if one.active or not watch.active])

    def stop(self) -> None:
        """Stop listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._store.database.notifications.leave(listener)

    def _resumed(self) -> None:
        if self._listener is None:
            return  # just stopped: the loop may end before the task does
        watches = self._changes.current()  # their announcements may have been lost
        self._looking = asyncio.get_running_loop().create_task(self._compare(watches))

    async def _compare(self, watches: Collection[Watch]) -> None:
        keys = {watch.key for watch in watches}
        with suppress(StoreUnavailableError):  # the waiters check again
            heads = await self._store.read(lambda tables: tables.heads_of(keys))
            for watch in watches:
                watch.compare(heads)

    def _on_message(self, _sender: int, text: str) -> None:
        name, _, changed = text.partition(" ")
        if name != self._store.name:
            self._changes.announce_topic(changed)
