"""Partial events between processes that share a PostgreSQL."""

import asyncio
import threading

from sqlalchemy import make_url

from durable_adk.partials import PostgresPartials
from durable_adk.sql import notifications
from durable_adk.sql.database import PostgresDatabase
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.waiting import PATIENCE


async def test_publishing_never_waits() -> None:
    """From any thread, with a database that is away: what is too much is lost, without an error."""
    away = PostgresDatabase(make_url("postgresql://u@127.0.0.1:1/none"))
    channel = PostgresPartials(away)

    def publish() -> None:
        for index in range(2 * notifications.BACKLOG):
            channel.publish(chunk("a", index))

    thread = threading.Thread(target=publish)
    thread.start()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    assert len(away.notifications._outgoing) == notifications.BACKLOG
    async with asyncio.timeout(PATIENCE), channel.subscribe(KEY, INVOCATION) as viewer:
        assert viewer.drain() == []
    await away.close()
