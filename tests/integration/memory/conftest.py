"""A memory in PostgreSQL, for the contract in tests/unit/memory."""

from collections.abc import AsyncIterator

import pytest

from durable_adk.memory import PostgresMemoryService


@pytest.fixture
async def service(postgres_url: str) -> AsyncIterator[PostgresMemoryService]:
    """An empty memory service."""
    made = PostgresMemoryService(postgres_url)
    await made.delete_memory(app_name="app", user_id="user")
    yield made
    await made.close()
