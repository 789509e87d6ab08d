"""Session services to test; tests/integration/sessions runs the contract on PostgreSQL."""

from uuid import uuid4

import pytest

from durable_adk.sessions import InMemorySessionService, SessionKey, SqliteSessionService


@pytest.fixture(params=["memory", "sqlite"])
def place(request, tmp_path):
    """Where the sessions are: a file, or None for nowhere."""
    return tmp_path / "folder" / "sessions.db" if request.param == "sqlite" else None


@pytest.fixture
async def service(place):
    """An empty session service, of each kind in turn."""
    made = InMemorySessionService() if place is None else SqliteSessionService(place)
    yield made
    await made.close()


@pytest.fixture
async def sql_stores(tmp_path):
    """Two services over one place, of a kind that is read by SQL."""
    made = [SqliteSessionService(tmp_path / "sessions.db") for _ in range(2)]
    yield made
    for one in made:
        await one.close()


@pytest.fixture
def key():
    """A session of an app that no other test uses; tests of one database do not meet."""
    return SessionKey(f"app-{uuid4()}", "user", "session")
