"""The body of a parallel worker."""

from collections.abc import AsyncGenerator
from itertools import count
from typing import Final

from durable_adk.calling.closing import closing
from durable_adk.errors import from_detail
from durable_adk.events.event import Event
from durable_adk.flows.graph.attempt import NodeAttempt, NodeParts
from durable_adk.flows.graph.runs import NodeRuns
from durable_adk.flows.graph.task import NodeTask
from durable_adk.graph.retry_config import retry_of
from durable_adk.wire.agent_stack import WorkerPosition
from durable_adk.wire.checkpoint import BATCH_SECONDS
from durable_adk.wire.graph.batch import ItemsStep, item_run, item_site
from durable_adk.wire.graph.node_run import ItemOutputs, NodeRef, NodeRun, item_event
from durable_adk.wire.graph.ranges import Ranges, count_in, numbers_in, taken_from, with_numbers
from durable_adk.wire.steps import NodeStep

MAX_ITEMS_AT_ONCE: Final = 50
"""Number of items of a parallel worker that run at once, if it has no limit of its own."""
MAX_BATCH: Final = 25
"""Number of items in a batch: 1,000 items take 40 activities, which several workers can share."""


async def run_worker(attempt: NodeAttempt) -> AsyncGenerator[Event, None]:
    """Run a node for each item of the input, and then store the list of the outputs (GR-59)."""
    task = attempt.task
    inner = task.node.inner or task.node
    alone = inner.kind in ("agent", "worker") or inner.calls  # what calls nodes may take hours
    run = (_ItemRuns if alone else _BatchedItemRuns)(attempt.parts, task)
    if run.position.items is None:
        async with closing(attempt.step()) as events:
            async for event in events:
                yield event
        items = task.end.items if task.end else None
        run.position.items, run.position.due = items or 0, [(1, items)] if items else []
    async with closing(run.run()) as events:
        async for event in events:
            yield event
    async with closing(attempt.step(collected=NodeRef(listed=run.outputs()))) as events:
        async for event in events:
            yield event


class _ItemRuns(NodeRuns):
    """One run of a parallel worker: each item is a branch of the loop."""

    def __init__(self, parts: NodeParts, task: NodeTask) -> None:
        super().__init__(parts, task.scope, task.current_site())
        self.inner = task.node.inner or task.node
        self.limit = task.node.window or MAX_ITEMS_AT_ONCE
        self.position = task.scope.frame.resumed(WorkerPosition) or task.scope.frame.hold(
            WorkerPosition(event_id=f"{task.scope.branch.prefix}.items")
        )

    def outputs(self) -> ItemOutputs:
        """Return references to the outputs of the items that have ended."""
        position = self.position
        return ItemOutputs(
            prefix=position.event_id,
            count=position.items or 0,
            stored=position.stored,
            others=position.others,
        )

    def begin(self) -> None:
        """See base class."""
        for key, run in list(self.position.runs.items()):
            self.launch_item(key, run)
        self.start_due()

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        position = self.position
        del position.runs[key]
        output = task.end and task.end.output
        if output == self.outputs().ref(int(key)):
            position.stored = with_numbers(position.stored, [int(key)])
        elif output is not None:
            position.others[key] = output
        self.start_due()

    @property
    def may_begin(self) -> bool:
        """Whether items are due, and may begin: none does while one waits for an answer (GR-60)."""
        position = self.position
        asked = any(run.asked for run in position.runs.values())
        return bool(position.due) and not (asked or self.awaits_message)

    def start_due(self) -> None:
        """Launch further items."""
        position = self.position
        while self.may_begin and len(position.runs) < self.limit:
            self.count()
            ((number, _),), position.due = taken_from(position.due, 1)
            self.launch_item(str(number), self.begin_item(number))

    def begin_item(self, number: int) -> NodeRun:
        """Record that an item has begun."""
        run = item_run(self.site, self.scope.ctx.branch, self.position.event_id, number)
        self.position.runs[str(number)] = run
        return run

    def launch_item(self, key: str, run: NodeRun) -> NodeTask:
        """Start the task of an item."""
        return self.launch(key, self.inner, run, item_site(self.site, self.inner.name, run))


class _BatchedItemRuns(_ItemRuns):
    """One run of a parallel worker: the items' code runs in batches, each an activity.

    An item that its first step does not end becomes a branch of the loop: one that asks or is tried
    again, or whose events the loop commits.
    """

    def __init__(self, parts: NodeParts, task: NodeTask) -> None:
        super().__init__(parts, task)
        self._batches: dict[str, int] = {}
        """How many items may run at once in each batch that is launched, by its key."""
        self._fails = False
        """Whether an item has failed for good, so that no further one begins."""

    @property
    def may_begin(self) -> bool:
        """See base class."""
        return super().may_begin and not self._fails

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        if self._batches.pop(key, None) is None:
            super().ended(key, task)
        else:
            self.start_due()

    def start_due(self) -> None:
        """Launch further batches; their items are chosen once they begin, see `perform`."""
        several = -(-self.limit // MAX_BATCH)
        while self.may_begin and len(self._batches) * MAX_BATCH < count_in(self.position.due):
            free = self.limit - len(self.position.runs) - sum(self._batches.values())
            if free <= 0:
                return
            number = next(one for one in count(1) if f"batch-{one}" not in self._batches)
            key = f"batch-{number}"
            self._batches[key] = min(free, self.limit // several)
            run = NodeRun(
                run_id=number,
                input=self.site.input,
                branch=self.scope.ctx.branch,
                event_id=f"{self.position.event_id}.{key}",
            )
            self.launch(key, self.inner, run, self.site)

    async def perform(self, task: NodeTask) -> None:
        """See base class."""
        if task.key not in self._batches:
            await super().perform(task)
            return
        # Until here the workflow may continue as new, and then no item of the batch has begun.
        await self.parts.invocation.continuing.safe_point(branch=task.scope.branch)
        if self.may_begin:
            await self._run_batch(task)

    async def _run_batch(self, task: NodeTask) -> None:
        """Run the code of the next items, and take what has come of it."""
        invocation, position = self.parts.invocation, self.position
        items, position.due = taken_from(position.due, MAX_BATCH)
        for number in numbers_in(items):
            if number > position.counted:  # else a batch has ended before it
                self.count()
                position.counted = number
        done = await invocation.state.runtime.perform(self._batch(task, items))
        for number, seq in done.stored.items():
            invocation.committed_by_step(item_event(position.event_id, int(number)), seq)
        position.stored = with_numbers(position.stored, map(int, done.stored))
        invocation.state.require_active(task.scope.branch)
        failed = {key: from_detail(detail) for key, detail in done.failed.items()}
        raised = [from_detail(one.error) for one in done.results.values() if one.error is not None]
        errors = [*failed.values(), *raised]
        self._fails |= any(retry_of(self.inner.retry, error, 1) is None for error in errors)
        ended = {*done.stored, *done.results, *failed}
        left = [number for number in numbers_in(items) if str(number) not in ended]
        position.due = with_numbers(position.due, left)
        for key, outcome in sorted({**done.results, **failed}.items(), key=lambda one: int(one[0])):
            self.launch_item(key, self.begin_item(int(key))).outcome = outcome

    def _batch(self, task: NodeTask, items: Ranges) -> ItemsStep:
        invocation, inner = self.parts.invocation, self.inner
        state = invocation.state
        limits = state.checkpoint.opened.limits
        fields = invocation.step_fields(task.scope, self.position.event_id)
        fields["site"] = self.site
        step = NodeStep(
            **fields,
            attempt_timeout=inner.timeout or limits.tool_timeout,
            node=inner.name,
            task_queue=inner.task_queue,
            contract=inner.contract,
            kind=inner.kind,
            returns_event=state.reads_state,
        )
        return ItemsStep(
            step=step,
            items=items,
            at_once=self._batches[task.key],
            retry=inner.retry,
            attempt_timeout=BATCH_SECONDS + step.attempt_timeout + limits.callback_timeout,
        )
