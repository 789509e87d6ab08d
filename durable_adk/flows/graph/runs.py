"""Runs of nodes side by side: what a graph and a parallel worker have in common.

Each run is a task with a branch of its own. The events that a step leaves to the loop, and those of
agents, pass through one queue; the task waits until its event is committed (RUN-3). The order of
the queue is the order in which steps completed. That is in the workflow's history, so a replay sees
the same one.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from durable_adk.calling.closing import abandoned, uninterrupted
from durable_adk.errors import BudgetExceededError
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, Branch, CommitBy
from durable_adk.flows.graph.attempt import NodeAttempt, NodeParts
from durable_adk.flows.graph.retries import NodeRetries
from durable_adk.flows.graph.task import NodeTask, attempt_prefix
from durable_adk.wire.graph.node_run import NodeRun, NodeSite
from durable_adk.wire.manifest import GraphNode


class NodeRuns(ABC):
    """Runs of nodes side by side."""

    closes_calls = False
    """Whether the open calls of a run that has failed for good are closed: its caller continues."""

    def __init__(self, parts: NodeParts, scope: AgentScope, site: NodeSite) -> None:
        self.parts = parts
        self.scope = scope
        self.site = site
        """The run of the graph, or of the worker."""
        self.tasks: dict[str, NodeTask] = {}
        self._invocation = parts.invocation
        self._busy = True
        self._news = asyncio.Queue[tuple[NodeTask, Event | BaseException | None]]()

    @abstractmethod
    def begin(self) -> None:
        """Launch the runs that an earlier workflow run has left, and those that are due."""

    def waits(self) -> None:
        """Launch what may run while a run waits for an answer: by default nothing."""
        return

    def claim(self, task: NodeTask) -> None:
        """Check an output that the loop commits, before it does.

        Raises:
            DurableAdkError: It must not be stored: the graph, and not only the run, fails.
        """
        del task

    @abstractmethod
    def ended(self, key: str, task: NodeTask) -> None:
        """Record the end of a run, and launch what it lets start."""

    def failed(self, key: str, task: NodeTask, error: BaseException) -> None:
        """Record the failure of a run, which fails all unless a subclass says otherwise.

        Raises:
            BaseException: The error.
        """
        del key, task
        raise error

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the events that the loop has to commit, and those of agents.

        Raises:
            DurableAdkError: A run failed for good; all others were cancelled.
        """
        loop = asyncio.get_running_loop()
        try:
            self.begin()
            self._hold(not self.tasks)
            while self.tasks:
                task, item = await self._news.get()
                if isinstance(item, Event):
                    if task.site.path in (item.node_info.output_for or ()):
                        self.claim(task)
                    yield item
                    task.committed.set()
                else:
                    self._land(task, item)
        finally:
            if not abandoned(loop):
                self._hold(True)
                await uninterrupted(self._stop())

    def _hold(self, busy: bool) -> None:
        """Count this branch as busy, or not, while its nodes are instead."""
        if busy is not self._busy:
            self._busy = busy
            self.scope.branch.count(1 if busy else -1)

    def count(self) -> None:
        """Count a run of a node that is about to begin.

        Raises:
            BudgetExceededError: The invocation may begin no more of them.
        """
        checkpoint = self._invocation.state.checkpoint
        limit = checkpoint.opened.limits.max_node_runs
        if checkpoint.counters.node_runs >= limit:
            raise BudgetExceededError(
                f"The invocation has begun {limit:,} runs of nodes, the limit. Raise "
                "Limits.max_node_runs, or find out why the graph does not end."
            )
        checkpoint.counters.node_runs += 1

    def launch(
        self, key: str, node: GraphNode, run: NodeRun, site: NodeSite, *, decided: bool = False
    ) -> NodeTask:
        """Start the task of a run.

        Args:
            key: The run's name among those that run now.
            node: The node.
            run: The run.
            site: The run for steps.
            decided: Whether the loop decides if an output is stored.

        Returns:
            The task, which has not begun.

        Raises:
            CancelledError: What is around these runs has ended, and this node must not begin.
        """
        scope = self.scope
        if scope.branch.stopped:
            raise asyncio.CancelledError
        task = NodeTask(
            key=key,
            node=node,
            run=run,
            site=site,
            scope=replace(
                scope,
                ctx=replace(scope.ctx, branch=run.branch),
                branch=Branch(attempt_prefix(run), scope.branch.branches, scope.branch.timers),
                frame=scope.frame.enter(key),
                commit_by=CommitBy.LOOP if decided else scope.commit_by,
                call=None,
            ),
        )
        self.tasks[key] = task
        scope.branch.count(1)
        task.task = asyncio.ensure_future(self._forward(task))
        return task

    def scope_of(self, node: GraphNode, path: str) -> str | None:
        """Return the `isolation_scope` of a run: its own if a task agent is the node (GR-82)."""
        driven = self.parts.node.children if node.kind == "agent" else []
        is_task = any(one.mode == "task" for one in driven if one.name == node.name)
        return path if is_task else self.site.scope

    @property
    def awaits_message(self) -> bool:
        """Whether a task agent waits for the user, so that no further run begins (GR-73)."""
        return any(task.run.awaits_message for task in self.tasks.values())

    def _set_awaiting(self, task: NodeTask, awaits: bool) -> None:
        """Note that a task agent waits for the user, or does so no more."""
        task.run.awaits_message = awaits
        above = self.scope.call and self.scope.call.set_awaiting
        if above:
            above(self.awaits_message)
        if not awaits:
            self.waits()

    def _land(self, task: NodeTask, error: BaseException | None = None) -> None:
        if error is not None:
            self.failed(task.key, task, error)
        del self.tasks[task.key]
        self.scope.frame.leave(task.key)
        try:
            if error is None:
                self.ended(task.key, task)
            self._hold(not self.tasks)  # before the run leaves: a pause begins when none is busy
        finally:
            self._leave(task)

    def _leave(self, task: NodeTask) -> None:
        task.scope.branch.leave()
        self._invocation.pending.join(self.scope.branch)

    async def _stop(self) -> None:
        """Cancel the nodes that run, and wait for their ends.

        A step that is about to finish does so and swallows the cancellation. Because the branch is
        marked as stopped, the next step does not begin.
        """
        stopped, self.tasks = list(self.tasks.values()), {}
        tasks = [one.task for one in stopped if one.task is not None]
        for one in stopped:
            one.scope.branch.stop()
            one.committed.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in stopped:
            self._leave(one)

    async def _forward(self, task: NodeTask) -> None:
        try:
            await self.perform(task)
        except BaseException as error:  # noqa: BLE001 - `run` raises it again
            self._news.put_nowait((task, error))
        else:
            self._news.put_nowait((task, None))

    async def perform(self, task: NodeTask) -> None:
        """Do the work of a task."""
        attempt = NodeAttempt(self.parts, task, self.waits, partial(self._set_awaiting, task))
        send = partial(self._send, task)
        await NodeRetries(attempt, self.parts, send, closes=self.closes_calls).run()

    async def _send(self, task: NodeTask, event: Event) -> None:
        """Have an event committed."""
        if task.scope.branch.stopped:
            raise asyncio.CancelledError
        task.committed.clear()
        self._news.put_nowait((task, event))
        # What the loop is committing is stored, whether the run is cancelled or not.
        await uninterrupted(task.committed.wait())
        if task.scope.branch.stopped:
            raise asyncio.CancelledError  # it was swallowed here; what runs below has to end, too
