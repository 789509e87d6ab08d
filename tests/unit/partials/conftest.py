"""Channels to test; tests/integration/partials runs the contract on Redis and PostgreSQL."""

import tempfile
from pathlib import Path

import pytest

from durable_adk.partials import InProcessPartials, SocketPartials


@pytest.fixture
def temp(monkeypatch):
    """A temporary folder of the system that only this test uses, with a short path."""
    with tempfile.TemporaryDirectory(prefix="partials-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(params=["in-process", "sockets"])
def channel(request, temp):
    """A channel without viewers, of each kind in turn."""
    if request.param == "in-process":
        return InProcessPartials()
    return SocketPartials(temp / "sessions.db")
