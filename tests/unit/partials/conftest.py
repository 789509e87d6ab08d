"""Channels to test."""

import tempfile
from pathlib import Path

import pytest

from durable_adk.partials import InProcessPartials, RedisPartials, SocketPartials


@pytest.fixture
def temp(monkeypatch):
    """A temporary folder of the system that only this test uses, with a short path."""
    with tempfile.TemporaryDirectory(prefix="partials-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(params=["in-process", "sockets", "redis"])
async def channel(request, temp, redis_server):
    """A channel without viewers, of each kind in turn."""
    if request.param == "in-process":
        yield InProcessPartials()
    elif request.param == "sockets":
        yield SocketPartials(temp / "sessions.db")
    else:
        made = RedisPartials(redis_server.url())
        yield made
        await made.close()
