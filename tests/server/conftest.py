"""Servers of these tests take no slowness of the machine for a fault."""

import pytest

from durable_adk.server.protocols.a2a import operations
from durable_adk.server.routes import acceptance
from tests.support.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server waits until a message has begun something.

    A test in which a message waits for another one makes the time short, once the other has begun.
    """
    for module, names in (
        (acceptance, ("_STARTED", "_ACCEPTED", "_CHECKED")),
        (operations, ("_STARTED", "_CANCELLED")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, PATIENCE)
