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
def place(request, tmp_path):
    """Where the sessions are: a file, a database's URL, or None for nowhere."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return tmp_path / "folder" / "sessions.db" if request.param == "sqlite" else None


@pytest.fixture
async def service(place):
    """An empty session service, of each kind in turn."""
    if place is None:
        made = InMemorySessionService()
    elif isinstance(place, str):
        made = DatabaseSessionService(place)
    else:
        made = SqliteSessionService(place)
    yield made
    await made.close()


@pytest.fixture
def key():
    """A session of an app that no other test uses; tests of one database do not meet."""
    return SessionKey(f"app-{uuid4()}", "user", "session")
