"""How long a client waits for a worker, and for a Temporal that is away."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client import temporal_backend
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.errors import NoWorkerError, TemporalUnavailableError
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.wire.messages import InvocationRequest
from tests.support.waiting import PATIENCE

REQUEST = InvocationRequest(app="app", user="u", message="go")
AWAY = RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b"")
MISSING = NoWorkerError("No worker polls.")


class Temporal:
    """Has one workflow, which is not open in the store, and says at each look what the test sets.

    Args:
        said: What a look at the task queue fails with, in turn; None: a worker polls. Then it says
            the last one again.
        ends: Whether the workflow ends after the last one.
    """

    key, invocation_id = SessionKey("app", "u", "s"), "i"

    class client:  # noqa: N801 - as `Invocations.client`
        """Its identity is that of no worker."""

        identity = "me"

    def __init__(self, *said: Exception | None, ends: bool = False) -> None:
        self.looks = 0
        self._said = said
        self._ends = ends
        self._ended = asyncio.Event()

    async def start(self, _: InvocationRequest, **__: object) -> "Temporal":
        """See `Invocations.start`."""
        return self

    async def result(self) -> str:
        """Wait, also while Temporal is away, as its SDK does."""
        await self._ended.wait()
        return "done"

    async def waits(self) -> bool:
        """See `InvocationHandle.waits`."""
        return False

    async def failing_step(self, *, logged_by: str) -> None:
        """See `InvocationHandle.failing_step`."""

    async def check_worker(self, _: str) -> None:
        """See `Invocations.check_worker`."""
        said = self._said[min(self.looks, len(self._said) - 1)]
        self.looks += 1
        if self._ends and self.looks == len(self._said):
            self._ended.set()
        if said is not None:
            raise said


Waited = Callable[..., Any]


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    """What a client gets that is not patient."""
    for name, seconds in (
        ("FIRST_LOOK", 0.02),
        ("WORKER_CHECK", 0.05),
        ("SERVER_TIMEOUT", 0.5),
    ):
        monkeypatch.setattr(temporal_backend, name, seconds)

    async def wait(temporal: Temporal, *, reconnect: float = 0.5, **options: bool) -> Any:
        monkeypatch.setattr(temporal_backend, "RECONNECT", reconnect)
        made: Any = temporal
        backend = TemporalBackend(made, InMemorySessionService(), **options)
        async with asyncio.timeout(PATIENCE):
            return await (await backend.start(REQUEST))

    return wait


@pytest.mark.parametrize("early", [AWAY, None])
async def test_a_server_that_was_away_knows_no_workers(
    waited: Waited, early: Exception | None
) -> None:
    """F6: they poll again soon, so a worker that is missing then is no error."""
    temporal = Temporal(early, AWAY, *[MISSING] * 6, ends=True)
    assert await waited(temporal, reconnect=10 * PATIENCE) == "done"


async def test_a_look_that_finds_a_worker_begins_anew(waited: Waited) -> None:
    """F6: a server that restarted between two looks names one at the first, and later again."""
    looks = [MISSING, None] * 4
    assert await waited(Temporal(*looks, ends=True)) == "done"


@pytest.mark.thorough
@pytest.mark.parametrize("said", [[MISSING], [AWAY, MISSING]])
async def test_a_worker_that_stays_away_is_an_error(waited: Waited, said: list[Exception]) -> None:
    """I11: also after Temporal was away; who waits for one waits."""
    with pytest.raises(NoWorkerError):
        await waited(Temporal(*said))
    looks = [*said, *[MISSING] * 20]
    assert await waited(Temporal(*looks, ends=True), waits_for_worker=True) == "done"


async def test_a_temporal_that_stays_away_is_an_error(waited: Waited) -> None:
    """I11: its SDK asks again for longer than a look takes, so only looks may tell."""
    for options in ({}, {"waits_for_worker": True}):
        with pytest.raises(TemporalUnavailableError, match=r"has not answered .* tcp"):
            await waited(Temporal(MISSING, AWAY), **options)


async def test_what_temporal_refuses_to_tell_is_not_waited_for(waited: Waited) -> None:
    """A client may be kept from looking at a task queue; its invocations run."""
    refused = RPCError("not allowed", RPCStatusCode.PERMISSION_DENIED, b"")
    assert await waited(Temporal(*[refused] * 20, ends=True)) == "done"
