"""Commits one event."""

from durable_adk.activities.commit.staleness import require_known
from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import LeaseLostError
from durable_adk.failpoints import failpoint
from durable_adk.telemetry.metrics import commits
from durable_adk.telemetry.names import APP
from durable_adk.wire.steps import CommitStep


async def commit_event(deps: Dependencies, step: CommitStep, *, by_step: bool = False) -> int:
    """Store one event; a repeat returns the sequence number of the first attempt (D4).

    Args:
        deps: The stores.
        step: The event.
        by_step: Whether the event's own step commits it, instead of the loop.

    Raises:
        EventConflictError: The event id is taken, or reserved for the loop.
        SessionRegressedError: The store is older than the run, which waits for its repair (I21).
    """
    failpoint("commit.before")
    try:
        seq = await deps.sessions.commit_event(
            step.key,
            step.event,
            invocation_id=step.invocation_id,
            epoch=step.epoch,
            closing=step.closing,
            revision=step.revision,
            by_step=by_step,
        )
    except LeaseLostError:
        await require_known(deps, step.key, step.invocation_id, epoch=step.epoch)
        raise
    failpoint("commit.after")
    commits.add(1, {APP: step.key.app_name})
    deps.cache.add(step.key, seq, step.event)
    return seq
