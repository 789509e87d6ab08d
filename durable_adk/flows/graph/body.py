"""The bodies of graphs and of parallel workers."""

from collections.abc import AsyncGenerator

from durable_adk.calling.closing import closing
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.graph.runs import NodeParts, NodeRuns, NodeTask, RunAgent
from durable_adk.flows.graph.schedule import GraphSchedule
from durable_adk.flows.invocation import Invocation
from durable_adk.wire.agent_stack import (
    GraphPosition,
    NodeEnd,
    NodeRef,
    NodeRun,
    NodeSite,
    WorkerPosition,
)
from durable_adk.wire.manifest import AgentNode, GraphRecord

MAX_ITEMS_AT_ONCE = 50
"""Number of items of a parallel worker that run at once, if it has no limit of its own."""


async def run_graph(
    invocation: Invocation, node: AgentNode, scope: AgentScope, run_agent: RunAgent
) -> AsyncGenerator[Event, None]:
    """Run a graph until nothing runs and no node is due (GR-74)."""
    parts = NodeParts(invocation=invocation, node=node, run_agent=run_agent, run_worker=run_worker)
    site = (
        scope.call.site
        if scope.call
        else NodeSite(
            path=f"{node.name}@1",
            prefix=scope.branch.prefix,
            input=NodeRef.user_message(),
            output_for=[f"{node.name}@1"],
        )
    )
    run = _GraphRun(parts, scope, site)
    async with closing(run.run()) as events:
        async for event in events:
            yield event
    if scope.call is not None:
        scope.call.end = NodeEnd(output=run.position.output, branch=scope.ctx.branch)


class _GraphRun(NodeRuns):
    """One run of a graph: in the order that `GraphSchedule` decides."""

    def __init__(self, parts: NodeParts, scope: AgentScope, site: NodeSite) -> None:
        super().__init__(parts, scope, site)
        resumed = scope.frame.resumed(GraphPosition)
        self.position = resumed or scope.frame.hold(
            GraphPosition(path=site.path, event_id=scope.branch.next_id())
        )
        self._schedule = GraphSchedule(parts.node.graph or GraphRecord(), self.position)
        if resumed is None:
            self._schedule.begin(site.input, scope.ctx.branch)

    def begin(self) -> None:
        """See base class."""
        for name, run in list(self.position.runs.items()):
            self._launch(name, run)
        self._start_due()

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        self._schedule.ended(key, task.end or NodeEnd(branch=task.run.branch))
        self._start_due()

    def waits(self) -> None:
        """See base class."""
        self._start_due()

    def claim(self, task: NodeTask) -> None:
        """See base class."""
        self._schedule.claim_output(task.node.name)

    def _start_due(self) -> None:
        while not self.talks and (name := self._schedule.next()) is not None:
            self.count()
            self._launch(name, self._schedule.start(name))

    def _launch(self, name: str, run: NodeRun) -> None:
        schedule, path = self._schedule, self._schedule.path(name)
        ends = schedule.is_terminal(name)
        site = NodeSite(
            path=path,
            prefix=run.event_id,
            input=run.input,
            output_for=[path, *(self.site.output_for if ends else [])],
            scope=self.scope_of(schedule.node(name), path),
        )
        # The graph's one output must not be stored before the loop knows that it is the only one.
        decided = ends and len(schedule.terminals) > 1
        self.launch(name, schedule.node(name), run, site, decided=decided)


async def run_worker(parts: NodeParts, task: NodeTask) -> AsyncGenerator[Event, None]:
    """Run a node for each item of the input, and then store the list of the outputs (GR-59)."""
    run = _WorkerRun(parts, task)
    if run.position.items is None:
        async with closing(run.step(task)) as events:
            async for event in events:
                yield event
        run.position.items = task.end.items if task.end else 0
    async with closing(run.run()) as events:
        async for event in events:
            yield event
    listed = NodeRef(listed=[run.position.outputs.get(key) for key in run.numbers()])
    async with closing(run.step(task, collected=listed)) as events:
        async for event in events:
            yield event


class _WorkerRun(NodeRuns):
    """One run of a parallel worker."""

    def __init__(self, parts: NodeParts, task: NodeTask) -> None:
        super().__init__(parts, task.scope, task.current_site())
        self._node = task.node
        self.position = task.scope.frame.resumed(WorkerPosition) or task.scope.frame.hold(
            WorkerPosition(event_id=f"{task.scope.branch.prefix}.items")
        )

    def begin(self) -> None:
        """See base class."""
        for key, run in list(self.position.runs.items()):
            self._launch(key, run)
        self._start_due()

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        del self.position.runs[key]
        if task.end is not None and task.end.output is not None:
            self.position.outputs[key] = task.end.output
        self._start_due()

    def numbers(self) -> list[str]:
        """Return the numbers of all items, in their order."""
        return [str(number) for number in range(1, (self.position.items or 0) + 1)]

    def _start_due(self) -> None:
        """Launch further items, but none while one waits for an answer (GR-60)."""
        position, limit = self.position, self._node.window or MAX_ITEMS_AT_ONCE
        while position.begun < (position.items or 0) and len(position.runs) < limit:
            if self.talks or any(run.asked for run in position.runs.values()):
                return
            self.count()
            position.begun += 1
            number = position.begun
            branch = f"{self._node.name}@{number}"
            run = NodeRun(
                run_id=number,
                input=NodeRef(of=self.site.input, item=number - 1, split_by=self.site.path),
                branch=".".join(filter(None, (self.scope.ctx.branch, branch))),
                event_id=f"{position.event_id}.{number}",
            )
            position.runs[str(number)] = run
            self._launch(str(number), run)

    def _launch(self, key: str, run: NodeRun) -> None:
        inner = self._node.inner or self._node
        path = f"{self.site.path}/{inner.name}@{run.run_id}"
        site = NodeSite(
            path=path,
            prefix=run.event_id,
            input=run.input,
            output_for=[path],
            scope=self.scope_of(inner, path),
        )
        self.launch(key, inner, run, site, decided=False)
