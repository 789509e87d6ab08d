"""Memory services to test; tests/integration/memory runs the contract on PostgreSQL."""

import pytest

from durable_adk.memory import InMemoryMemoryService, SqliteMemoryService


@pytest.fixture(params=["memory", "sqlite"])
async def service(request, tmp_path):
    """An empty memory service, of each kind in turn."""
    if request.param == "memory":
        made = InMemoryMemoryService()
    else:
        made = SqliteMemoryService(tmp_path / "folder" / "memory.db")
    yield made
    await made.close()
