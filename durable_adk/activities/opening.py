"""Opening an invocation."""

from contextlib import suppress
from typing import Any

from durable_adk.activities.ending import close_invocation, ending_of
from durable_adk.activities.world import World
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    InvocationTerminatedError,
    LeaseLostError,
    PayloadTooLargeError,
    SessionBusyError,
    as_detail,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.holders import LOCAL_PREFIX
from durable_adk.payloads import CloseStep, Opened, OpenStep, check_size
from durable_adk.sessions.base_session_service import InvocationRecord, Status
from durable_adk.values import canonical

LOCAL_TTL = 30.0
"""Seconds after which an in-process run that stopped renewing is taken for dead."""


async def open_invocation(world: World, step: OpenStep) -> Opened:
    """Take the session's lease and store the user's event; a repeat finds the first one's record.

    Raises:
        SessionBusyError: Another invocation that is alive holds the lease.
        CallerError: The app or session does not exist; nothing was stored.
    """
    app = world.registry.app(step.key.app_name)
    failpoint("open.before")
    try:
        record = await _open(world, step)
    except SessionBusyError:
        if not await _freed(world, step):
            raise
        record = await _open(world, step)
    if record.holder != step.holder and not record.status.closed:
        # Two workflows for one invocation would both drive it: the second is refused.
        raise InvalidRequestError(
            f"Invocation {step.invocation_id!r} is run by {record.holder}; attach to it instead."
        )
    failpoint("open.after")
    manifest = app.manifest()
    state = await _state(world, step, record) if manifest.any_custom() else None
    return Opened(
        record=record,
        ending=await ending_of(world, step.key, record) if record.status.closed else None,
        manifest=manifest,
        agent=manifest.name,
        limits=world.limits,
        registry=world.registry_name,
        state=state,
    )


async def _state(world: World, step: OpenStep, record: InvocationRecord) -> dict[str, Any]:
    """The state for the bodies of custom agents.

    Raises:
        PayloadTooLargeError: It does not fit into a payload, which would hang the workflow; the
            invocation is ended with that.
    """
    _, state = await world.sessions.read_state(step.key)
    try:
        check_size(canonical(state), "The session's state, which custom agents are given,")
    except PayloadTooLargeError as error:
        ending = _ending(world, step, record, Status.FAILED, error)
        await close_invocation(world, ending)
        raise
    return state


def _ending(
    world: World,
    step: OpenStep,
    record: InvocationRecord,
    status: Status,
    error: DurableAdkError,
) -> CloseStep:
    return CloseStep(
        key=step.key,
        invocation_id=record.invocation_id,
        epoch=record.epoch,
        status=status,
        author=world.registry.app(step.key.app_name).manifest().name,
        timestamp=step.timestamp,
        error=as_detail(error),
    )


async def _freed(world: World, step: OpenStep) -> bool:
    """Whether the session is free now: its holder may have gone without ending its invocation.

    Then that is ended in its place, so that no call stays open and it cannot come back (D7).
    """
    active = await world.sessions.active_invocation(step.key)
    if active is None:
        return True
    if await world.is_alive(active.holder):
        return False
    error = InvocationTerminatedError(
        f"The workflow of invocation {active.invocation_id!r} was closed from outside."
    )
    ending = _ending(world, step, active, Status.ABANDONED, error)
    with suppress(LeaseLostError):  # others may be doing the same
        await close_invocation(world, ending)
    return True


async def _open(world: World, step: OpenStep) -> InvocationRecord:
    user_event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author="user",
        timestamp=step.timestamp,
        content=step.message,
        custom_metadata=step.custom_metadata,
        actions=EventActions(state_delta=step.state_delta),
    )
    return await world.sessions.open_invocation(
        step.key,
        invocation_id=step.invocation_id,
        holder=step.holder,
        user_event=user_event,
        create_session=step.create_session,
        ttl=LOCAL_TTL if step.holder.startswith(LOCAL_PREFIX) else None,
    )
