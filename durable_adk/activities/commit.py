"""Committing an event."""

from durable_adk.activities.world import World
from durable_adk.failpoints import failpoint
from durable_adk.payloads import CommitStep


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
