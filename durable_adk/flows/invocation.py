"""One open invocation: its state, its pending calls, and the only way to commit an event."""

from typing import Any

from durable_adk.calling.closing import uninterrupted
from durable_adk.conversation.nodes.events import result_text
from durable_adk.errors import AgentError, raised
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, CommitBy
from durable_adk.flows.continue_as_new import ContinueAsNew, saved
from durable_adk.flows.pending_calls import PendingCalls
from durable_adk.flows.plugin_hooks import on_event
from durable_adk.flows.state import LoopState
from durable_adk.sessions.state import without_temp
from durable_adk.wire.checkpoint import BATCH_SECONDS, StepBatch
from durable_adk.wire.graph.dynamic import NodeCaller
from durable_adk.wire.graph.node_run import NodeRun
from durable_adk.wire.manifest import AgentNode, HandOver
from durable_adk.wire.messages import MAX_BYTES, MAX_RESULT_TEXT
from durable_adk.wire.steps import CommitStep, DynamicNodes, EarlyCommit, StepResult


class Invocation:
    """An open invocation."""

    def __init__(self, state: LoopState, *, cancelled: bool = False) -> None:
        self.state = state
        self.continuing = ContinueAsNew(state)
        self.pending = PendingCalls(state, self.continuing)
        self.cancelled = cancelled
        """Whether it was cancelled during its opening."""
        self.closed = False
        """Whether a step has already closed the invocation."""
        self._committed_by_step: dict[str, int] = {}
        self._seen_by_plugins: set[str] = set()

    def step_fields(
        self, scope: AgentScope, event_id: str, *, commit_by: CommitBy | None = None
    ) -> dict[str, Any]:
        """Return the fields of every `Step`, for a step of an agent's run.

        Args:
            scope: The run.
            event_id: Id of the step's event.
            commit_by: Which party commits that event; None: the run's default.

        Raises:
            CancelledError: The agent or the invocation is to end.
        """
        state = self.state
        state.require_active(scope.branch)
        early = (commit_by or scope.commit_by) is CommitBy.STEP
        return state.step_fields(scope.ctx.agent_name, event_id) | {
            "run_start": scope.position.start,
            "branch": scope.ctx.branch,
            "early_commit": self._early_commit(scope) if early else None,
            "epoch": None if early else state.checkpoint.epoch,
            "run": scope.position.run or None,
            "site": scope.site(),
        }

    def _early_commit(self, scope: AgentScope) -> EarlyCommit:
        state, closes = self.state, scope.position.closes
        return EarlyCommit(
            epoch=state.checkpoint.epoch,
            closes=closes,
            on_event=state.hooked("on_event_callback") or None,
            agent=state.checkpoint.opened.agent if closes and scope.position.run else None,
            runs=state.agent_runs.open_now() if closes else None,
        )

    async def run_batch(self, scope: AgentScope, name: str, *, seconds: float = 0.0) -> None:
        """Let the runtime perform the next steps ahead of the loop, if it can; see `StepBatches`.

        To be awaited at a safe point (see `continue_as_new`), before a model call or a node's code.

        Args:
            scope: The run whose step is next.
            name: The agent or node that begins, for readers of the history.
            seconds: Maximum seconds of an attempt at that step, if it has a limit of its own.
        """
        state, batches = self.state, self.state.runtime.batches
        if state.steps_per_activity == 1 or batches is None or batches.is_ahead:
            return
        limits = state.checkpoint.opened.limits
        longest = max(limits.model_timeout, limits.tool_timeout)
        if seconds > longest or not self._can_go_ahead(scope):
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

    def _can_go_ahead(self, scope: AgentScope) -> bool:
        """Return whether the loop would do nothing but the next steps.

        Not while answers or messages may arrive for it, beside other branches, in what the loop
        ends in time, or where events pass through the workflow; nor with custom agents, whose code
        sees the session's state.
        """
        state, pending = self.state, self.state.checkpoint.pending
        waits = pending.paused or pending.waiting or pending.answered or pending.unread
        return (
            scope.commit_by is CommitBy.STEP
            and state.branches.busy == 1
            and not any(timer.is_limited for timer in scope.branch.timers)
            and not (waits or pending.steered or state.reads_state)
        )

    def target(self, transfer: HandOver | None) -> AgentNode | None:
        """Return the agent that takes over; the event that names it is already committed (AGT-50).

        Raises:
            AgentError: The agent may not be handed over to, or does not exist (AGT-53, 17.1).
        """
        if transfer is None or transfer.node is not None:
            return transfer and transfer.node
        known = self.state.checkpoint.opened.manifest.names()
        text = f"There is no agent {transfer.name!r} to transfer to."
        if transfer.name in known:
            text = (
                f"The agent may not transfer to {transfer.name!r}: it is the agent itself, neither "
                "its parent nor a sub-agent nor a peer, or not to be transferred to from there."
            )
        agents = f"{text} The agents are: {', '.join(known)}."
        raise raised(AgentError, "ValueError", agents)

    def take(self, result: StepResult) -> None:
        """Record what a step has committed or shown to the plugins, before its event is yielded."""
        if result.event is not None and result.hooked:
            self._seen_by_plugins.add(result.event.id)
        if result.event is not None and result.seq is not None:
            self._committed_by_step[result.event.id] = result.seq
            self.closed = self.closed or result.closed

    async def commit(self, event: Event) -> None:
        """Store an event. Once this returns it is durable, and only then may the agent resume.

        If its step has committed the event, that is only recorded. Otherwise missing id, invocation
        id and timestamp are set in place.
        """
        state = self.state
        seq = self._committed_by_step.pop(event.id, None)
        if seq is not None:
            self._committed(event, seq)
            return
        self._complete(event)
        if event.id not in self._seen_by_plugins:
            await on_event(state, event)
            self._complete(event)
        state.apply_local(event.actions.state_delta, event.actions.state_read)
        event.actions.state_delta = without_temp(event.actions.state_delta)
        await self.pending.resume()
        step = CommitStep(
            key=state.key,
            invocation_id=state.invocation_id,
            epoch=state.checkpoint.epoch,
            event=event,
            revision=state.checkpoint.revision,
        )
        # Must not be interrupted, or the event could land among the closing events.
        self._committed(event, await uninterrupted(state.runtime.perform(step)))

    def committed_by_step(self, event_id: str, seq: int) -> None:
        """Record an event that a step has committed, and that no code here needs to see."""
        state, checkpoint = self.state, self.state.checkpoint
        state.advanced(seq)
        checkpoint.counters.events += 1
        checkpoint.last_event_id = event_id
        self.continuing.progressed()

    def caller(self, run: NodeRun) -> NodeCaller:
        """Return what the activity of a node needs to run those that the node's code calls."""
        state, checkpoint = self.state, self.state.checkpoint
        opened = checkpoint.opened
        return NodeCaller(
            limits=opened.limits,
            hooks=opened.hooks,
            rules=opened.rules,
            resumable=opened.resumable,
            budget=opened.budget,
            opened_at=checkpoint.opened_at,
            used=dict(state.budget.used),
            model_calls=checkpoint.counters.model_calls,
            node_runs=checkpoint.counters.node_runs,
            tool_run=checkpoint.request.tool_run,
            journal=run.journal,
            answered=list(run.resumed),
            wants_state=state.reads_state,
        )

    def called(self, nodes: DynamicNodes) -> None:
        """Count what the nodes have done that the code of a node has called."""
        state, checkpoint = self.state, self.state.checkpoint
        counters = checkpoint.counters
        counters.model_calls += nodes.model_calls
        counters.tool_calls += nodes.tool_calls
        counters.node_runs += nodes.node_runs
        counters.events += nodes.events
        for name, number in nodes.used.items():
            state.budget.used[name] += number
        state.advanced(nodes.revision)
        checkpoint.last_event_id = nodes.last_event_id or checkpoint.last_event_id
        checkpoint.final_text = nodes.text[:MAX_RESULT_TEXT] or checkpoint.final_text
        checkpoint.runs += nodes.runs
        if nodes.state is not None:
            state.refresh(nodes.state)
        state.apply_local(nodes.local_state)
        self.continuing.progressed()

    def _complete(self, event: Event) -> None:
        state = self.state
        event.id = event.id or state.main_branch.next_id()
        event.invocation_id = event.invocation_id or state.invocation_id
        event.timestamp = event.timestamp or state.runtime.now()
        metadata = state.checkpoint.request.run_config.custom_metadata
        if metadata:
            event.custom_metadata = {**metadata, **(event.custom_metadata or {})}

    def _committed(self, event: Event, seq: int) -> None:
        state, checkpoint = self.state, self.state.checkpoint
        state.advanced(seq)
        checkpoint.counters.events += 1
        self.continuing.progressed()
        state.budget.committed(event)
        checkpoint.last_event_id = event.id
        state.changed(event.actions)
        if text := result_text(event):
            checkpoint.final_text = text[:MAX_RESULT_TEXT]
