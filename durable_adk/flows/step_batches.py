"""Lets the runtime perform several steps in one activity (`App.steps_per_activity`)."""

from durable_adk.flows.agent_scope import AgentScope, CommitBy
from durable_adk.flows.continue_as_new import saved
from durable_adk.flows.invocation import Invocation
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.step_batch import BATCH_SECONDS, StepBatch


async def run_batch(invocation: Invocation, node: AgentNode, scope: AgentScope) -> None:
    """Let the runtime perform the next steps ahead of the loop, if it can; the loop takes them all.

    To be awaited at a safe point (see `continue_as_new`), before a model call.
    """
    state = invocation.state
    if state.steps_per_activity == 1 or not state.runtime.batches or state.runtime.is_ahead():
        return
    if _can_begin(invocation, scope):
        opened = state.checkpoint.opened
        if (node.model or "") in (opened.model_task_queues or {}):
            return  # the model's calls are activities on that queue
        state.require_active(scope.branch)
        longest = max(opened.limits.model_timeout, opened.limits.tool_timeout)
        batch = StepBatch(
            key=state.key,
            invocation_id=state.invocation_id,
            agent=node.name,
            lease_owner=state.lease_owner,
            checkpoint=saved(state, state.checkpoint.number),
            max_steps=state.steps_per_activity,
            attempt_timeout=BATCH_SECONDS + longest,
        )
        await state.runtime.run_batch(batch)


def _can_begin(invocation: Invocation, scope: AgentScope) -> bool:
    """Return whether the loop would do nothing but the agent's steps.

    Not while answers or messages may arrive for it, beside other branches, or for agents whose
    events pass through the workflow; nor with custom agents, whose code sees the session's state.
    """
    state = invocation.state
    pending = state.checkpoint.pending
    waits = pending.paused or pending.waiting or pending.answered or pending.unread
    return (
        scope.commit_by is CommitBy.STEP
        and state.branches.busy == len(state.branches.ids) == 1
        and not (waits or pending.steered or state.reads_state)
    )
