"""Which channel goes with which store."""

import asyncio

from durable_adk.partials import (
    InProcessPartials,
    PostgresPartials,
    SocketPartials,
    partials_of,
)
from durable_adk.sessions import (
    DatabaseSessionService,
    InMemorySessionService,
    SqliteSessionService,
)
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.waiting import PATIENCE


def test_a_store_in_memory_has_one_channel():
    """Whoever has the object meets on it; another store is another channel."""
    sessions = InMemorySessionService()
    channel = partials_of(sessions)
    assert isinstance(channel, InProcessPartials)
    assert partials_of(sessions) is channel
    assert partials_of(InMemorySessionService()) is not channel


async def test_those_who_open_the_same_file_meet(temp):
    """However they name it; they need not be the same object, nor in the same process."""
    ours, theirs = temp / "sessions.db", temp / "." / "x" / ".." / "sessions.db"
    (temp / "x").mkdir()
    channel = partials_of(SqliteSessionService(ours))
    other = partials_of(DatabaseSessionService(f"sqlite:///{theirs}"))
    assert isinstance(channel, SocketPartials)
    assert other is not None
    async with channel.subscribe(KEY, INVOCATION) as viewer, asyncio.timeout(PATIENCE):
        other.publish(chunk("a"))
        assert await viewer.get() == chunk("a")


def test_those_who_share_a_postgresql_meet_on_it():
    """Its notices are what they have in common; nothing is sent before it is used."""
    channel = partials_of(DatabaseSessionService("postgresql://u@127.0.0.1/none"))
    assert isinstance(channel, PostgresPartials)
