"""How watches of a SQLite file are woken: by looking at it again and again."""

import asyncio

from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import NEVER, opened, settled
from tests.unit.sessions.test_watching import commit


async def test_a_look_may_be_slow(sql_stores, key):
    """What it has read may be older than what the poll has compared before the look has ended."""
    reader, writer = sql_stores
    await opened(writer, key)
    store_of_reader = reader._sql
    read = store_of_reader.read

    async def slow(work):
        found = await read(work)
        store_of_reader.read = read
        (rounds,) = reader._news._rounds.values()
        version = rounds._version
        await commit(writer, key)
        await until(lambda: rounds._version != version)
        return found

    with reader.watch(key._replace(session_id="other")) as other:
        await reader.look(other)
        await settled(reader)
        with reader.watch(key) as watch:
            store_of_reader.read = slow
            await reader.look(watch)
            async with asyncio.timeout(PATIENCE):
                await reader.changed(watch, timeout=NEVER)
