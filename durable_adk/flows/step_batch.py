"""Batches: steps that one activity performs ahead of the loop, which then takes all of them."""

from durable_adk.flows.agent_scope import AgentScope, CommitBy
from durable_adk.flows.continue_as_new import saved
from durable_adk.flows.invocation import Invocation
from durable_adk.wire.checkpoint import BATCH_SECONDS, StepBatch
from durable_adk.wire.messages import MAX_BYTES


async def run_batch(
    invocation: Invocation, scope: AgentScope, name: str, *, seconds: float = 0.0
) -> None:
    """Let the runtime perform the next steps, if it can.

    To be awaited at a safe point (see `continue_as_new`), before a model call or a node's code.

    Args:
        invocation: The invocation.
        scope: The run whose step is next.
        name: The agent or node that begins, for readers of the history.
        seconds: Maximum seconds of an attempt at that step, if it has a limit of its own.
    """
    state, batches = invocation.state, invocation.state.runtime.batches
    if state.steps_per_activity == 1 or batches is None or batches.is_ahead:
        return
    opened = state.checkpoint.opened
    longest = max(opened.limits.model_timeout, opened.limits.tool_timeout)
    if seconds > longest or not _can_begin(invocation, scope):
        return
    state.require_active(scope.branch)
    batch = StepBatch(
        key=state.key,
        invocation_id=state.invocation_id,
        agent=name,
        lease_owner=state.lease_owner,
        checkpoint=saved(state, state.checkpoint.number),
        max_steps=state.steps_per_activity,
        attempt_timeout=BATCH_SECONDS + longest,
    )
    if len(batch.to_json().encode()) <= MAX_BYTES:
        await batches.run(batch)


def _can_begin(invocation: Invocation, scope: AgentScope) -> bool:
    """Return whether the loop would do nothing but these steps.

    Not while answers or messages may arrive for it, beside other branches, in what the loop ends in
    time, or where events pass through the workflow; nor with custom agents, whose code sees the
    session's state.
    """
    state = invocation.state
    pending = state.checkpoint.pending
    waits = pending.paused or pending.waiting or pending.answered or pending.unread
    return (
        scope.commit_by is CommitBy.STEP
        and state.branches.busy == 1
        and not any(timer.is_limited for timer in scope.branch.timers)
        and not (waits or pending.steered or state.reads_state)
    )
