"""What the memories in PostgreSQL keep when processes share them, or the database is away."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256

import pytest

from durable_adk.embedded.stores import folder_stores
from durable_adk.memory import PostgresMemoryService, SqliteMemoryService
from durable_adk.sessions import DatabaseSessionService
from durable_adk.settings import Settings
from tests.support.postgres import Databases
from tests.unit.memory.test_postgres_memory_service import OWNER, entry, texts


@pytest.fixture
async def url(postgres: Databases) -> str:
    """An empty database."""
    return await postgres.make()


@pytest.fixture
async def service(url: str) -> AsyncIterator[PostgresMemoryService]:
    """Its memory."""
    made = PostgresMemoryService(url)
    yield made
    await made.close()


async def test_rare_words_count_more_than_common_ones(service: PostgresMemoryService) -> None:
    """One rare word beats two that are everywhere (MEM-3)."""
    common = [entry(f"what is the weather {n}") for n in range(30)]
    await service.add_memory(**OWNER, memories=[*common, entry("a passport number")])
    assert (await texts(service, "what is the passport"))[0] == "a passport number"


async def test_words_of_any_length_are_found(service: PostgresMemoryService) -> None:
    """A word that is longer than an index entry may be is known by how it begins."""
    long = "".join(sha256(str(n).encode()).hexdigest() for n in range(300))
    await service.add_memory(**OWNER, memories=[entry(f"the token {long} of it")])
    assert len(await texts(service, long)) == 1


async def test_those_who_add_the_same_at_once_do_not_deadlock(
    service: PostgresMemoryService, url: str
) -> None:
    """Each memory is there once, whoever was first (MEM-6)."""
    other = PostgresMemoryService(url)
    memories = [entry(f"tea {n}", id=f"m{n}") for n in range(40)]
    await asyncio.gather(
        *(
            one.add_memory(**OWNER, memories=memories[::step])
            for one in (service, other)
            for step in (1, -1)
        )
    )
    found = await service.search_memory(**OWNER, query="39")
    assert [memory.id for memory in found.memories] == ["m39"]
    await service.delete_memory(**OWNER, memory_id="m39")
    assert await texts(other, "39") == []
    await other.close()


async def test_a_search_uses_the_index_of_words(
    service: PostgresMemoryService, postgres: Databases, url: str
) -> None:
    """Of many memories only those that share a word are read."""
    assert await texts(service, "tea") == []
    await postgres.query(
        url,
        "INSERT INTO memories (app_name, user_id, session_id, entry_id, said_at, entry, words) "
        "SELECT 'app', 'user', 's', 'e' || n, '', '{}', ARRAY['tea', 'w' || n] "
        "FROM generate_series(1, 20000) AS n",
    )
    await postgres.query(url, "ANALYZE memories")
    plan = await postgres.query(
        url,
        "EXPLAIN SELECT * FROM memories WHERE app_name = 'app' AND user_id = 'user' "
        "AND words && '{w7}'",
    )
    assert "memories_words" in str(plan)


async def test_memories_are_with_the_sessions(postgres: Databases, url: str, tmp_path) -> None:
    """With a PostgreSQL store the memory is in that database, unless another place is named."""
    sessions = DatabaseSessionService(url)
    async with folder_stores(tmp_path, session_service=sessions) as stores:
        assert isinstance(stores.memory_service, PostgresMemoryService)
        await stores.memory_service.add_memory(**OWNER, memories=[entry("tea")])
    assert await postgres.query(url, "SELECT 1 FROM memories")
    named = Settings(memory=str(tmp_path / "m.db"))
    async with folder_stores(tmp_path, settings=named, session_service=sessions) as stores:
        assert isinstance(stores.memory_service, SqliteMemoryService)
    async with folder_stores(tmp_path, settings=Settings(memory=url)) as stores:
        assert isinstance(stores.memory_service, PostgresMemoryService)
    await sessions.close()
