"""Ending what is in the way of who waits for a session, in the place of holders that are gone."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from durable_adk.activities.dependencies import World
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.steering import steer, steers
from durable_adk.activities.invocation.waiting import Waiter
from durable_adk.activities.lifecycle import taken_over
from durable_adk.errors import (
    DurableAdkError,
    EventConflictError,
    InvocationTerminatedError,
    LeaseLostError,
    SessionBusyError,
    UnknownAppError,
    as_detail,
    from_detail,
)
from durable_adk.sessions.lease_owner import ttl_of
from durable_adk.sessions.records import InvocationRecord, Status, Ticket
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.steps import CloseStep, OpenStep

W = TypeVar("W", bound=Waiter)
R = TypeVar("R")


async def once_free(world: World, step: W, effect: Callable[[World, W], Awaitable[R]]) -> R:
    """One attempt of an effect that waits for the lease, and another if its holder is gone.

    Raises:
        SessionBusyError: Another invocation that is alive holds the lease.
    """
    try:
        return await effect(world, step)
    except SessionBusyError:
        if not await freed(world, step):
            raise
        return await effect(world, step)


async def freed(world: World, step: Waiter) -> bool:
    """Whether nobody comes first any more: who did may have gone without giving way.

    Asked in this order, so that in the end it is known of all: the one who holds the lease, then
    those whose turn is before an opening's; others wait for the lease only. What the waiter's own
    holder began under another id is abandoned: its workflow was reset, and does not know of it.
    """
    active = await world.sessions.active_invocation(step.key)
    if active is not None and active.invocation_id != step.invocation_id:
        if active.holder != step.holder and await world.is_alive(active.holder):
            if isinstance(step, OpenStep):
                await _ask(world, step, active)
            return False
        await end_for(world, step, active)
    return not isinstance(step, OpenStep) or await _is_first(world, step)


async def _ask(world: World, step: OpenStep, active: InvocationRecord) -> None:
    """Ask the active invocation to end, or to hear the message, as the opening wants it.

    Only now: its ticket lets nobody else in between, and every attempt asks again.
    """
    if step.when_busy is WhenBusy.INTERRUPT:
        await world.interrupt(step.key, active)
    if steers(step):
        await steer(world, step, active)


async def _is_first(world: World, step: OpenStep) -> bool:
    while tickets := await world.sessions.waiting(step.key, limit=1):
        ticket = tickets[0]
        if ticket.invocation_id == step.invocation_id:
            break
        sealed = await _seal_for(world, step, ticket)
        if not sealed and not await _is_gone(world, step, ticket):
            return False
        await world.sessions.leave_queue(
            step.key, invocation_id=ticket.invocation_id, holder=ticket.holder
        )
    return True


async def _is_gone(world: World, step: OpenStep, ticket: Ticket) -> bool:
    return ticket.holder == step.holder or not await world.is_alive(ticket.holder)


async def _seal_for(world: World, step: OpenStep, ticket: Ticket) -> bool:
    """Store what ends an invocation in the place of its holder, which ended it and may be gone.

    Of a process nobody can say whether it is; the seals are the same, whoever stores them.
    """
    record = await world.sessions.get_invocation(step.key, ticket.invocation_id)
    if record is None or record.sealed or not record.status.closed:
        return False
    if ttl_of(ticket.holder) is None and not await _is_gone(world, step, ticket):
        return False
    ending = ending_for(world, step, record, record.status, from_detail(record.error or {}))
    with suppress(LeaseLostError, EventConflictError):  # others may be doing the same
        await close_invocation(
            world, ending.model_copy(update={"holder": record.holder, "seals": True})
        )
    return True


async def end_for(world: World, step: Waiter, record: InvocationRecord) -> None:
    """End an invocation in the place of its holder, which is gone.

    So no call stays open, and the holder can write no more should it come back (D7).
    """
    error = InvocationTerminatedError(
        f"Whatever ran invocation {record.invocation_id!r} has ended without it."
    )
    with suppress(LeaseLostError, EventConflictError):  # others may be doing the same
        await close_invocation(world, ending_for(world, step, record, Status.ABANDONED, error))
        taken_over(step.key, record)


def ending_for(
    world: World,
    step: Waiter,
    record: InvocationRecord,
    status: Status,
    error: DurableAdkError,
) -> CloseStep:
    """The end of an invocation, as whoever waits for its session asks for it."""
    return CloseStep(
        key=step.key,
        invocation_id=record.invocation_id,
        epoch=record.epoch,
        status=status,
        author=_author(world, step.key),
        timestamp=step.timestamp,
        error=as_detail(error),
    )


def _author(world: World, key: SessionKey) -> str:
    """Whose the error event is; an end is stored by workers, too, that do not serve the app."""
    try:
        return world.registry.app(key.app_name).manifest().name
    except UnknownAppError:
        return key.app_name
