"""What the memory file keeps when processes share it, are killed, or find it unusable."""

import sqlite3
from contextlib import closing

import pytest
from google.genai import types

from durable_adk.errors import StoreUnavailableError
from durable_adk.memory import MemoryEntry, SqliteMemoryService, sqlite_memory_service

OWNER = {"app_name": "app", "user_id": "user"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def service(path):
    return SqliteMemoryService(path)


def content(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


async def texts(service, query):
    found = await service.search_memory(**OWNER, query=query)
    return [memory.text for memory in found.memories]


async def test_memories_outlive_their_service(service, path):
    """What one service stored another finds, also after the first is closed."""
    await service.add_memory(**OWNER, memories=[MemoryEntry(content=content("tea"))])
    await service.close()
    assert await texts(SqliteMemoryService(str(path)), "tea") == ["tea"]


async def test_rare_words_count_more_than_common_ones(service):
    """By BM25 one rare word beats two that are everywhere (MEM-3)."""
    common = [MemoryEntry(content=content(f"what is the weather {n}")) for n in range(30)]
    rare = MemoryEntry(content=content("a passport number"))
    await service.add_memory(**OWNER, memories=[*common, rare])
    assert (await texts(service, "what is the passport"))[0] == "a passport number"


async def test_a_file_of_a_newer_version_is_left_alone(service, path):
    """Tables that this code does not know are not touched, and the error names them."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreUnavailableError, match="version 99"):
        await texts(service, "tea")


async def test_a_locked_file_is_worth_waiting_for(service, path, monkeypatch):
    """A writer that cannot have the file in time raises a transient error, which steps retry."""
    monkeypatch.setattr(sqlite_memory_service, "BUSY_TIMEOUT", 0.05)
    await texts(service, "tea")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            await service.add_memory(**OWNER, memories=[MemoryEntry(content=content("tea"))])
        assert await texts(service, "tea") == [], "readers do not wait for writers"
    await service.add_memory(**OWNER, memories=[MemoryEntry(content=content("tea"))])
    assert await texts(service, "tea") == ["tea"]


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_not_at_its_path_is_unavailable(service, path, replaced):
    """It is not made anew without a word; what is in it counts again when it is back."""
    tea = [MemoryEntry(content=content("tea"))]
    await service.add_memory(**OWNER, memories=tea)
    path.rename(f"{path}.away")
    if replaced:
        path.touch()
    for work in (lambda: service.add_memory(**OWNER, memories=tea), lambda: texts(service, "tea")):
        with pytest.raises(StoreUnavailableError, match=f"{path} was deleted or replaced"):
            await work()
    assert path.exists() is replaced
    path.with_name(f"{path.name}.away").replace(path)
    assert await texts(service, "tea") == ["tea"]
