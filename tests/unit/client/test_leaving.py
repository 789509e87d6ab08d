"""What a client that leaves waits for: workflows learn later that they have ended."""

import asyncio
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client import temporal_backend
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.sessions import InMemorySessionService
from durable_adk.wire.messages import InvocationRequest
from tests.support.waiting import PATIENCE, forever, until

REQUEST = InvocationRequest(app="app", user="u", message="go")


class Handle:
    """Of a workflow that ends after some looks; None: never."""

    def __init__(self, looks: int | None) -> None:
        self.looks = looks

    async def result(self) -> None:
        """Is not there yet."""
        await forever()

    async def rests(self) -> bool:
        """See `InvocationHandle.rests`."""
        if self.looks is None:
            return False
        if self.looks < 0:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        self.looks -= 1
        return self.looks < 0


class Invocations:
    """Starts what it receives."""

    def __init__(self, *handles: Handle) -> None:
        self._handles = list(handles)

    async def start(self, request: InvocationRequest, **_: object) -> Handle:
        """See `durable_adk.client.invocations.Invocations.start`."""
        assert request is REQUEST
        return self._handles.pop(0)


def runs(*handles: Handle) -> Any:
    """The runs of a client."""
    invocations: Any = Invocations(*handles)
    return TemporalBackend(invocations, InMemorySessionService())


@pytest.mark.parametrize("released", [True, False])
async def test_it_waits_until_they_rest(*, released: bool) -> None:
    """I11: also if it has read no further than it wanted; and one that nobody tells of is none."""
    away, slow = Handle(-1), Handle(3)
    leaving = runs(away, slow)
    for task in [await leaving.start(REQUEST) for _ in range(2)]:
        if released:
            leaving.release(task)
    await leaving.close()
    assert slow.looks == -1


async def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: a workflow whose worker is gone ends when there is another one."""
    monkeypatch.setattr(temporal_backend, "CLOSE_TIMEOUT", 0.1)
    leaving = runs(Handle(None))
    leaving.release(await leaving.start(REQUEST))
    await asyncio.wait_for(leaving.close(), PATIENCE)


async def test_it_waits_for_nothing_that_it_left_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way there does not include what it knows to have ended."""
    monkeypatch.setattr(temporal_backend, "CLOSE_TIMEOUT", 0.05)
    old = Handle(3)
    leaving = runs(old)
    leaving.release(await leaving.start(REQUEST))
    now = asyncio.get_running_loop().time
    left = now()
    await until(lambda: now() > left + 0.1)
    await leaving.close()
    assert old.looks == 3
