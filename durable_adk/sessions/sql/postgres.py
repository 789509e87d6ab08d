"""The session store in a PostgreSQL database."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import URL, Connection

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.log.storage import T
from durable_adk.sessions.log.watches import Changes, topic
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql._tables import SqlTables
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.migrate import SchemaVersion
from durable_adk.sql.notifications import Listener

CHANNEL = "durable_adk_commits"
"""Channel on which processes announce changed sessions to each other."""


class PostgresStore:
    """Runs transactions in a PostgreSQL database and announces their commits.

    The announcement is sent in a separate transaction after the commit, because PostgreSQL
    serializes the commits, disk writes included, of transactions that send notifications. An
    announcement can be lost, for example if the process dies in between. Waiters tolerate this: no
    wait is longer than half a second.
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

    async def read(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.read`."""
        return await self.database.read(lambda inner: work(SqlTables(inner, lock=False)))

    async def write(self, work: Callable[[SqlTables], T]) -> T:
        """See `Store.write`."""
        changed: set[SessionKey] = set()

        def transaction(connection: Connection) -> T:
            tables = SqlTables(connection, lock=True)
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


class CommitNotifications:
    """Wakes the watches of sessions that other processes change."""

    def __init__(self, store: PostgresStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._listener: Listener | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start listening, unless already started."""
        if self._listener is None:
            self._listener = Listener(channel=CHANNEL, heard=self._heard, resumed=self._resumed)
            self._store.database.notifications.listen(self._listener)

    def stop(self) -> None:
        """Stop listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._store.database.notifications.leave(listener)

    def _resumed(self) -> None:
        if self._listener is None:
            return  # just stopped: the loop may end before the task does
        self._looking = asyncio.get_running_loop().create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Compare all watched sessions with the database, as notices may have been lost."""
        watches = self._changes.current()
        keys = {watch.key for watch in watches}
        with suppress(StoreUnavailableError):  # the waiters then read again after their timeout
            heads = await self._store.read(lambda inner: {key: inner.head(key) for key in keys})
            for watch in watches:
                watch.compare(heads[watch.key])

    def _heard(self, _sender: int, text: str) -> None:
        name, _, changed = text.partition(" ")
        if name != self._store.name:
            self._changes.announce_topic(changed)
