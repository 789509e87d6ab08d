"""Channels to test."""

import tempfile
from pathlib import Path

import pytest
from sqlalchemy import make_url

from durable_adk.partials import (
    InProcessPartials,
    PostgresPartials,
    RedisPartials,
    SocketPartials,
)
from durable_adk.sql.database import PostgresDatabase
from tests.support.postgres import HAS_POSTGRES


@pytest.fixture
def temp(monkeypatch):
    """A temporary folder of the system that only this test uses, with a short path."""
    with tempfile.TemporaryDirectory(prefix="partials-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(params=["in-process", "sockets", "redis"] + ["postgres"] * HAS_POSTGRES)
def server(request):
    """The URL of the server that a channel needs, or its kind where it needs none."""
    if request.param == "redis":
        return request.getfixturevalue("redis_server").url()
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def channel(server, temp):
    """A channel without viewers, of each kind in turn; servers keep no files in `temp`."""
    if server == "in-process":
        yield InProcessPartials()
    elif server == "sockets":
        yield SocketPartials(temp / "sessions.db")
    elif server.startswith("redis"):
        made = RedisPartials(server)
        yield made
        await made.close()
    else:
        database = PostgresDatabase(make_url(server))
        yield PostgresPartials(database)
        await database.close()
