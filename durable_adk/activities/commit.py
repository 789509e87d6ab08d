"""Opening an invocation and committing its events."""

from durable_adk.activities.world import World
from durable_adk.errors import InvalidRequestError, SessionBusyError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.holders import LOCAL_PREFIX
from durable_adk.payloads import CommitStep, Opened, OpenStep
from durable_adk.sessions.base_session_service import InvocationRecord

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
        record = await _open(world, step, take_over_epoch=None)
    except SessionBusyError:
        active = await world.sessions.active_invocation(step.key)
        if active is not None and await world.is_alive(active.holder):
            raise
        # Its holder was closed without giving the lease back (D7). Should somebody else have been
        # quicker, the epoch has changed and this call is refused as before.
        record = await _open(world, step, take_over_epoch=active.epoch if active else None)
    if record.holder != step.holder and not record.status.closed:
        # Two workflows for one invocation would both drive it: the second is refused.
        raise InvalidRequestError(
            f"Invocation {step.invocation_id!r} is run by {record.holder}; attach to it instead."
        )
    failpoint("open.after")
    manifest = app.manifest()
    state = None
    if manifest.any_custom():
        _, state = await world.sessions.read_state(step.key)
    return Opened(
        record=record,
        manifest=manifest,
        agent=manifest.name,
        limits=world.limits,
        registry=world.registry_name,
        state=state,
    )


async def _open(world: World, step: OpenStep, *, take_over_epoch: int | None) -> InvocationRecord:
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
        take_over_epoch=take_over_epoch,
        ttl=LOCAL_TTL if step.holder.startswith(LOCAL_PREFIX) else None,
    )


async def commit_event(world: World, step: CommitStep) -> int:
    """Store one event; a repeat returns the first one's sequence number (D4)."""
    failpoint("commit.before")
    seq = await world.sessions.commit_event(
        step.key,
        step.event,
        invocation_id=step.invocation_id,
        epoch=step.epoch,
        closing=step.closing,
    )
    failpoint("commit.after")
    world.cache.add(step.key, seq, step.event)
    return seq
