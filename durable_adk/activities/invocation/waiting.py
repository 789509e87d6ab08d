"""Waiting for a session's lease: in place for the next tickets, by retries for all others.

An attempt that waits in place is notified by the store, and then reads a few small rows. A retry
is a task of the server and costs far more, so tickets far back in the queue retry less often.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from temporalio import activity

from durable_adk.activities.attempt import (
    IN_PLACE_TICKETS,
    IN_PLACE_TIMEOUT,
    busy_delay,
    heartbeating,
    run_to_completion,
)
from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import SessionBusyError
from durable_adk.failpoints import failpoint
from durable_adk.sessions.records import Place
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.steps import AnswerStep, CloseStep, OpenStep

T = TypeVar("T")
LOOK = 1.0
"""Seconds after which who waits in place looks whether the owner of the lease still lives; those
behind the first look accordingly less often."""
LOOK_LOCALLY = 5.0
"""Seconds at most without an engine after which those try again who are not next."""

PLACES = {
    WhenBusy.ENQUEUE: Place.LAST,
    WhenBusy.REJECT: None,
    WhenBusy.INTERRUPT: Place.FIRST,
    WhenBusy.STEER: Place.LAST,
}
"""Where a message that finds its session busy waits; None: it does not."""

WaitingStep = OpenStep | AnswerStep | CloseStep


class InPlaceWaits:
    """The attempts of a worker that wait in place: only so many, so that others have room."""

    def __init__(self) -> None:
        self._count = 0

    async def attempt(
        self, deps: Dependencies, effect: Callable[[Any], Coroutine[Any, Any, T]], step: WaitingStep
    ) -> T:
        """One attempt of an effect that needs its session free.

        Raises:
            SessionBusyError: It is to be tried again, see `step_attempt.busy_delay`.
        """
        try:
            return await run_to_completion(effect(step))
        except SessionBusyError as busy:
            if activity.info().is_local or self._count >= deps.max_in_place:
                raise
            first = busy
        self._count += 1
        try:
            async with heartbeating():
                return await _until_free(deps, effect, step, first)
        finally:
            self._count -= 1


async def _until_free(
    deps: Dependencies,
    effect: Callable[[Any], Coroutine[Any, Any, T]],
    step: WaitingStep,
    busy: SessionBusyError,
) -> T:
    until = time.monotonic() + IN_PLACE_TIMEOUT
    while True:
        late = time.monotonic() > until or activity.is_worker_shutdown()
        if late and busy.ahead < IN_PLACE_TICKETS:
            busy.remaining = 0.0  # at once: it may be its turn any time
        if late or busy.ahead >= IN_PLACE_TICKETS:
            raise busy
        failpoint("wait.in_place")
        seconds = LOOK * (1 + busy.ahead)
        await wait_for_turn(deps, step, seconds, ends=activity.is_worker_shutdown)
        # Its workflow may have been terminated meanwhile, which an attempt hears of only later.
        if not await deps.is_alive(step.lease_owner):
            raise busy
        try:
            return await run_to_completion(effect(step))
        except SessionBusyError as again:
            busy = again


async def wait_locally(deps: Dependencies, step: WaitingStep, busy: SessionBusyError) -> None:
    """Wait in a process without an engine until it is worth trying again."""
    if busy.ahead < IN_PLACE_TICKETS:
        await wait_for_turn(deps, step, LOOK)
    else:
        await asyncio.sleep(min(busy_delay(busy), LOOK_LOCALLY))


async def wait_for_turn(
    deps: Dependencies,
    step: WaitingStep,
    seconds: float,
    *,
    ends: Callable[[], bool] = lambda: False,
) -> None:
    """Wait for the turn of a step's ticket, as the store tells it; at most for some seconds."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not ends():
        await deps.sessions.wait_for_change(step.key, after=_NEVER, timeout=left)
        try:
            await check_turn(deps, step)
        except SessionBusyError:
            continue
        return


_NEVER = 2**62
"""After this many events: what is waited for is the lease, and not an event."""


async def check_turn(deps: Dependencies, step: WaitingStep) -> None:
    """Look whether it is worth trying, before anything else is read.

    Raises:
        SessionBusyError: The step has a ticket, and its turn has not come.
    """
    await deps.sessions.check_turn(
        step.key,
        invocation_id=step.invocation_id,
        lease_owner=step.lease_owner,
        place=PLACES[step.when_busy] if isinstance(step, OpenStep) else None,
        resumes=not isinstance(step, OpenStep),
    )
