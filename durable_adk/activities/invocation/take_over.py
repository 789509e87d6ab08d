"""Ends invocations and tickets whose owners are gone, to free the session for the next one."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.queue import WaitingStep
from durable_adk.activities.lifecycle import taken_over
from durable_adk.activities.webhook.announcement import announce
from durable_adk.errors import (
    DurableAdkError,
    EventConflictError,
    InvalidRequestError,
    InvocationTerminatedError,
    LeaseLostError,
    QueueFullError,
    SessionBusyError,
    UnknownAppError,
    as_detail,
    from_detail,
)
from durable_adk.failpoints import failpoint
from durable_adk.sessions.lease_owner import ttl_of
from durable_adk.sessions.records import InvocationRecord, MessageAwaitedError, Status, Ticket
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationAnswer, WhenBusy
from durable_adk.wire.steps import CloseStep, OpenStep

NOTIFIED = "notified"
"""Kind of the notes that record which messages the active invocation was notified of."""

W = TypeVar("W", bound=WaitingStep)
R = TypeVar("R")


class OpenedByOtherError(SessionBusyError):
    """The invocation is open already, under another lease owner.

    Args:
        record: The invocation.
    """

    def __init__(self, record: InvocationRecord) -> None:
        super().__init__(f"Invocation {record.invocation_id!r} is run by {record.lease_owner}.")
        self.record = record


async def retry_when_freed(
    deps: Dependencies, step: W, effect: Callable[[Dependencies, W], Awaitable[R]]
) -> R:
    """Perform an effect that needs the lease; retry once after ending what has no owner any more.

    Raises:
        SessionBusyError: A live invocation owns the lease.
        QueueFullError: Live invocations fill the queue.
        InvalidRequestError: The invocation that is to be opened has a live owner already.
    """
    try:
        return await effect(deps, step)
    except MessageAwaitedError:
        raise  # the session is free
    except OpenedByOtherError as other:
        await _end_if_abandoned(deps, step, other.record)
    except (SessionBusyError, QueueFullError):
        if not await free_session(deps, step):
            raise
    return await effect(deps, step)


async def free_session(deps: Dependencies, step: WaitingStep) -> bool:
    """Return whether the session is free, after ending invocations and tickets of dead owners.

    Checks the lease owner first and then, for an opening, the tickets before its own; other steps
    wait for the lease only. An invocation of the same owner under another id is abandoned: the
    workflow was reset and does not know about it.
    """
    active = await deps.sessions.active_invocation(step.key)
    if active is not None and active.invocation_id != step.invocation_id:
        if active.lease_owner != step.lease_owner and await deps.is_alive(active.lease_owner):
            if isinstance(step, OpenStep):
                await _ask(deps, step, active)
            return False
        await end_abandoned(deps, step, active)
    return not isinstance(step, OpenStep) or await _is_first(deps, step)


async def _ask(deps: Dependencies, step: OpenStep, active: InvocationRecord) -> None:
    """Request that the active invocation ends or receives the message, as the opening demands.

    Only once the opening has its ticket, which keeps other messages out. Every attempt repeats the
    request.
    """
    if step.when_busy is WhenBusy.INTERRUPT:
        await deps.interrupt(step.key, active)
    if step.steers:
        await _notify(deps, step, active)


async def _notify(deps: Dependencies, step: OpenStep, active: InvocationRecord) -> None:
    """Notify the active invocation of a waiting message, once unless a worker crashes.

    Every attempt of the opening calls this. If a worker dies before it writes the note, the active
    invocation is notified again and ignores the duplicate.
    """
    name, holds = step.invocation_id, active.invocation_id
    if await deps.sessions.read_notes(step.key, invocation_id=holds, kind=NOTIFIED, name=name):
        return
    answer = InvocationAnswer(steers=name, answer_id=name)
    await deps.steer(step.key, active, answer)
    failpoint("steer.notified")
    await deps.sessions.note(step.key, invocation_id=holds, kind=NOTIFIED, name=name, body="true")


async def _is_first(deps: Dependencies, step: OpenStep) -> bool:
    while tickets := await deps.sessions.waiting(step.key, limit=1):
        ticket = tickets[0]
        if ticket.invocation_id == step.invocation_id:
            break
        sealed = await _seal_for(deps, step, ticket)
        if not sealed and not await _is_gone(deps, step, ticket):
            return False
        await deps.sessions.leave_queue(
            step.key, invocation_id=ticket.invocation_id, lease_owner=ticket.lease_owner
        )
    return True


async def _is_gone(deps: Dependencies, step: OpenStep, ticket: Ticket) -> bool:
    return ticket.lease_owner == step.lease_owner or not await deps.is_alive(ticket.lease_owner)


async def _seal_for(deps: Dependencies, step: OpenStep, ticket: Ticket) -> bool:
    """Seal an ended invocation on behalf of its owner, which may be gone.

    Whether an owner that is a process is alive cannot be checked. Seals are deterministic, so it
    does not matter which process stores them.
    """
    record = await deps.sessions.get_invocation(step.key, ticket.invocation_id)
    if record is None or record.sealed or not record.status.closed:
        return False
    if ttl_of(ticket.lease_owner) is None and not await _is_gone(deps, step, ticket):
        return False
    ending = closing_step(deps, step, record, record.status, from_detail(record.error or {}))
    with suppress(LeaseLostError, EventConflictError):  # another process may do so concurrently
        await close_invocation(
            deps, ending.model_copy(update={"lease_owner": record.lease_owner, "seals": True})
        )
    return True


async def _end_if_abandoned(
    deps: Dependencies, step: WaitingStep, record: InvocationRecord
) -> None:
    """Close an invocation that another workflow opened.

    Raises:
        InvalidRequestError: Its lease owner is alive; two owners would both run it.
    """
    active = await deps.sessions.active_invocation(step.key)
    holds = active is not None and active.invocation_id == record.invocation_id
    if (holds or record.status is Status.PAUSED) and await deps.is_alive(record.lease_owner):
        raise InvalidRequestError(
            f"Invocation {record.invocation_id!r} is run by {record.lease_owner}; attach to it."
        )
    await end_abandoned(deps, step, record)


async def end_abandoned(deps: Dependencies, step: WaitingStep, record: InvocationRecord) -> None:
    """Close an invocation on behalf of its lease owner, which is gone.

    No call stays open, and the fenced lease owner cannot write any more if it returns (D7).
    """
    error = InvocationTerminatedError(
        f"The process running invocation {record.invocation_id!r} died before finishing it."
    )
    # Before the end is stored: after a crash nothing would find it again. The delivery waits for
    # it.
    await announce(deps, step.key, record.invocation_id, Status.ABANDONED)
    with suppress(LeaseLostError, EventConflictError):  # another process may do so concurrently
        await close_invocation(deps, closing_step(deps, step, record, Status.ABANDONED, error))
        taken_over(step.key, record)


def closing_step(
    deps: Dependencies,
    step: WaitingStep,
    record: InvocationRecord,
    status: Status,
    error: DurableAdkError,
) -> CloseStep:
    """Build the step that closes another invocation on behalf of one that waits for the session."""
    return CloseStep(
        key=step.key,
        invocation_id=record.invocation_id,
        epoch=record.epoch,
        status=status,
        author=_author(deps, step.key),
        timestamp=step.timestamp,
        error=as_detail(error),
    )


def _author(deps: Dependencies, key: SessionKey) -> str:
    """Return the author of the error event.

    Workers that do not serve the app may close its invocations too; they use the name in the key.
    """
    try:
        return deps.registry.app(key.app_name).manifest().name
    except UnknownAppError:
        return key.app_name
