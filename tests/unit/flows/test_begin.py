"""What a cancellation makes of an opening whose answer does not come."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from durable_adk.errors import (
    RunError,
    SessionBusyError,
    StoreUnavailableError,
    UnknownAppError,
    raised,
)
from durable_adk.flows.event_loop import run_invocation
from durable_adk.flows.runtime import Runtime
from durable_adk.sessions import InvocationRecord
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.steps import CloseStep, Ending, OpenStep


class Deaf:
    """A runtime whose opening continues until it is cancelled, and fails then."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.closed: list[int] = []
        self.opening = asyncio.Event()

    def now(self) -> float:
        return 1.0

    async def perform(self, step: OpenStep | CloseStep) -> Any:
        if isinstance(step, CloseStep):
            return self._close(step)
        self.opening.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise self.error

    def _close(self, step: CloseStep) -> Ending:
        self.closed.append(step.epoch)
        record = InvocationRecord(
            invocation_id=step.invocation_id,
            status=step.status,
            epoch=step.epoch,
            lease_owner=step.lease_owner,
            start_seq=0,
        )
        return Ending(record=record)


async def cancelled(runtime: Deaf) -> None:
    """Cancel an invocation while it opens, and see it to its end."""
    request = InvocationRequest(app="a", user="u", session="s", message="m", invocation_id="i")
    run = asyncio.create_task(run_invocation(cast("Runtime", runtime), request, lease_owner="h"))
    await runtime.opening.wait()
    run.cancel()
    await run


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        SessionBusyError("another's turn"),
        StoreUnavailableError("away"),
        raised(RunError, "TimeoutError", "no heartbeat of a frozen worker"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_cancelled_opening_fails_with_it_is_ended(error: BaseException) -> None:
    """I15: a worker that is lost meanwhile looks like a timeout; the run is cancelled all the same.

    Whether it was opened nobody knows, so it is closed, by who finds that out.
    """
    runtime = Deaf(error)
    with pytest.raises(asyncio.CancelledError):
        await cancelled(runtime)
    assert runtime.closed == [0]


async def test_a_request_that_is_refused_is_refused_though_cancelled() -> None:
    """Nothing was stored, and its sender learns why."""
    runtime = Deaf(UnknownAppError("no such app"))
    with pytest.raises(UnknownAppError):
        await cancelled(runtime)
    assert runtime.closed == []
