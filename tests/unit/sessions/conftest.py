"""Session services to test."""

from uuid import uuid4

import pytest

from durable_adk.sessions import (
    DatabaseSessionService,
    InMemorySessionService,
    SessionKey,
    SqliteSessionService,
)
from tests.support.postgres import HAS_POSTGRES


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
