"""Servers of these tests take no slowness of the machine for a fault."""

import pytest

from durable_adk.http import serving
from durable_adk.server.adk import traces
from durable_adk.server.protocols.a2a import operations
from durable_adk.server.routes import acceptance
from durable_adk.server.routes.model_requests import rebuilt_requests
from tests.support import http_server
from tests.support.postgres import be_patient
from tests.support.waiting import PATIENCE

REBUILDING = 60.0
"""Seconds for a worker to rebuild requests; it takes no order with much more."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server waits until a message has begun something, and its clients wait for it.

    A test in which a message waits for another one makes the time short, once the other has begun.
    """
    be_patient(monkeypatch)
    for module, names in (
        (acceptance, ("_STARTED", "_ACCEPTED", "_CHECKED")),
        (operations, ("_STARTED", "_CANCELLED")),
        (serving, ("_HEAD_TIMEOUT",)),
        (http_server, ("TIMEOUT",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, PATIENCE)
    monkeypatch.setattr(traces, "_REBUILDING", REBUILDING)
    monkeypatch.setitem(rebuilt_requests.__kwdefaults__, "seconds", REBUILDING)
