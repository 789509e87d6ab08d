"""Memory services to test."""

import pytest

from durable_adk.memory import (
    InMemoryMemoryService,
    PostgresMemoryService,
    SqliteMemoryService,
)
from tests.support.postgres import HAS_POSTGRES

KINDS = ["memory", "sqlite"] + ["postgres"] * HAS_POSTGRES


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    """Where the memory is: a file, a database, or None for nowhere."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return tmp_path / "folder" / "memory.db" if request.param == "sqlite" else None


@pytest.fixture
async def service(place):
    """An empty memory service, of each kind in turn."""
    if place is None:
        made = InMemoryMemoryService()
    elif isinstance(place, str):
        made = PostgresMemoryService(place)
        await made.delete_memory(app_name="app", user_id="user")
    else:
        made = SqliteMemoryService(place)
    yield made
    await made.close()
