"""Waiting for a session's lease: in place for the next tickets, by retries for all others.

The store notifies an attempt that waits in place, which then reads a few small rows. A retry is a
server task and costs far more, so tickets far back in the queue retry less often.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from temporalio import activity

from durable_adk.activities.attempt import (
    IN_PLACE_TICKETS,
    IN_PLACE_TIMEOUT,
    busy_delay,
)
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.heartbeats import Cancellations, heartbeating, run_to_completion
from durable_adk.errors import SessionBusyError
from durable_adk.failpoints import failpoint
from durable_adk.retrying import Deadline
from durable_adk.sessions.records import QueuePosition
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.steps import AnswerStep, CloseStep, OpenStep

T = TypeVar("T")
LOOK = 1.0
"""Seconds after which an attempt that waits in place checks that the lease owner is alive; attempts
further back check proportionally less often."""
LOOK_LOCALLY = 5.0
"""Maximum seconds between retries of a queued attempt without Temporal, unless it is among the next
tickets."""

QUEUE_POSITIONS = {
    WhenBusy.ENQUEUE: QueuePosition.LAST,
    WhenBusy.REJECT: None,
    WhenBusy.INTERRUPT: QueuePosition.FIRST,
    WhenBusy.STEER: QueuePosition.LAST,
}
"""Position in the queue of a message whose session is busy; None: the message does not wait."""

WaitingStep = OpenStep | AnswerStep | CloseStep


class InPlaceWaits:
    """Limits how many of a worker's attempts wait in place, to leave capacity for other work."""

    def __init__(self) -> None:
        self._count = 0

    async def attempt(
        self, deps: Dependencies, effect: Callable[[Any], Coroutine[Any, Any, T]], step: WaitingStep
    ) -> T:
        """Run one attempt of an effect that needs its session free.

        Raises:
            SessionBusyError: The effect is to be retried; see `attempt.busy_delay`.
        """
        try:
            return await run_to_completion(effect(step))
        except SessionBusyError as busy:
            if activity.info().is_local or self._count >= deps.max_in_place:
                raise
            first = busy
        self._count += 1
        try:
            async with heartbeating(cancels=Cancellations(deps.sessions, step.key)):
                return await _until_free(deps, effect, step, first)
        finally:
            self._count -= 1


async def _until_free(
    deps: Dependencies,
    effect: Callable[[Any], Coroutine[Any, Any, T]],
    step: WaitingStep,
    busy: SessionBusyError,
) -> T:
    deadline = Deadline(IN_PLACE_TIMEOUT)
    while True:
        late = deadline.left() < 0 or activity.is_worker_shutdown()
        if late and busy.ahead < IN_PLACE_TICKETS:
            busy.remaining = 0.0  # retry at once: its turn may come any time
        if late or busy.ahead >= IN_PLACE_TICKETS:
            raise busy
        failpoint("wait.in_place")
        seconds = LOOK * (1 + busy.ahead)
        await wait_for_turn(deps, step, seconds, ends=activity.is_worker_shutdown)
        # Its workflow may have been terminated, of which the attempt is notified late.
        if not await deps.is_alive(step.lease_owner):
            raise busy
        try:
            return await run_to_completion(effect(step))
        except SessionBusyError as again:
            busy = again


async def wait_locally(deps: Dependencies, step: WaitingStep, busy: SessionBusyError) -> None:
    """Wait, in a process without Temporal, until a retry is worthwhile."""
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
    """Wait for the ticket's turn according to the store, for at most `seconds`."""
    deadline = Deadline(seconds)
    while (left := deadline.left()) > 0 and not ends():
        await deps.sessions.wait_for_change(step.key, after=_NEVER, timeout=left)
        try:
            await check_turn(deps, step)
        except SessionBusyError:
            continue
        return


_NEVER = 2**62
"""An event number that is never reached: the wait is for the lease, not for an event."""


async def check_turn(deps: Dependencies, step: WaitingStep) -> None:
    """Check the ticket's turn before anything else is read.

    Raises:
        SessionBusyError: The step has a ticket, and its turn has not come.
    """
    await deps.sessions.check_turn(
        step.key,
        invocation_id=step.invocation_id,
        lease_owner=step.lease_owner,
        position=QUEUE_POSITIONS[step.when_busy] if isinstance(step, OpenStep) else None,
        resumes=not isinstance(step, OpenStep),
    )
