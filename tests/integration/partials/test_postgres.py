"""Partial events between processes that share a PostgreSQL."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from durable_adk.partials import PostgresPartials
from durable_adk.sql.database import PostgresDatabase
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
PUBLISH = """
import asyncio, sys
from sqlalchemy import make_url
from durable_adk.partials import PostgresPartials
from durable_adk.sql.database import PostgresDatabase
from tests.support.chunks import chunk

async def main():
    database = PostgresDatabase(make_url(sys.argv[1]))
    for index, text in enumerate(["a", "b" * 32_000, "\\u6771" * 9_000, "c" * 40_000, "d"]):
        PostgresPartials(database).publish(chunk(text, index))
    await database.close()

asyncio.run(main())
"""


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A process's connection."""
    made = PostgresDatabase(make_url(postgres_url))
    yield made
    await made.close()


async def test_another_process_is_heard(database: PostgresDatabase, postgres_url: str) -> None:
    """D8: large chunks come in pieces and whole; what is larger than a chunk may be is left out."""
    async with PostgresPartials(database).subscribe(KEY, INVOCATION) as viewer:
        command = [sys.executable, "-c", PUBLISH, postgres_url]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        await asyncio.to_thread(subprocess.run, command, check=True, env=env, timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            heard = [await viewer.get() for _ in range(4)]
    texts = [one.event.text for one in heard]
    assert [one.index for one in heard] == [0, 1, 2, 4]
    assert texts == ["a", "b" * 32_000, "\u6771" * 9_000, "d"]


async def test_only_who_watches_an_invocation_hears_of_it(
    database: PostgresDatabase, postgres_url: str
) -> None:
    """I18: neither another session's viewer nor another invocation's gets its chunks."""
    other = PostgresDatabase(make_url(postgres_url))
    channel = PostgresPartials(database)
    stranger = KEY._replace(user_id="other")
    async with (
        channel.subscribe(stranger, INVOCATION) as one,
        channel.subscribe(KEY, "e-2") as two,
        channel.subscribe(KEY, INVOCATION) as viewer,
        asyncio.timeout(PATIENCE),
    ):
        PostgresPartials(other).publish(chunk("a"))
        assert await viewer.get() == chunk("a")
        assert one.drain() == two.drain() == []
    await other.close()
