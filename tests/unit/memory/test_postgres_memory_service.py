"""What the memories in PostgreSQL keep when processes share them, or the database is away."""

import pytest
from google.genai import types

from durable_adk.errors import InvalidRequestError, StateValueError, StoreUnavailableError
from durable_adk.memory import MemoryEntry, PostgresMemoryService

OWNER = {"app_name": "app", "user_id": "user"}
POISON = ["\x00", "\ud800"]


def entry(text: str, **fields: object) -> MemoryEntry:
    """A memory of a text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return MemoryEntry(content=content, **fields)


async def texts(service: PostgresMemoryService, query: str) -> list[str]:
    """What a query finds."""
    found = await service.search_memory(**OWNER, query=query)
    return [memory.text for memory in found.memories]


async def test_what_postgresql_refuses_never_reaches_it() -> None:
    """1j: NUL, half characters and NaN are named before anything is sent to the database."""
    nowhere = PostgresMemoryService("postgresql://u@127.0.0.1:1/none")
    for bad in POISON:
        with pytest.raises(StateValueError):
            await nowhere.add_memory(**OWNER, memories=[entry(f"tea {bad}")])
        with pytest.raises(StateValueError):
            await nowhere.delete_memory(**OWNER, memory_id=bad)
        with pytest.raises(InvalidRequestError):
            await nowhere.search_memory(app_name="app", user_id=f"u{bad}", query="tea")
        assert await texts(nowhere, bad) == []
    with pytest.raises(StateValueError):
        await nowhere.add_memory(
            **OWNER, memories=[entry("tea")], custom_metadata={"a": float("nan")}
        )
    with pytest.raises(StoreUnavailableError):
        await texts(nowhere, "tea")
    await nowhere.close()


@pytest.mark.thorough
def test_a_file_is_no_postgresql_database() -> None:
    """The error says what is needed."""
    with pytest.raises(InvalidRequestError, match="postgresql"):
        PostgresMemoryService("sqlite:///memory.db")
