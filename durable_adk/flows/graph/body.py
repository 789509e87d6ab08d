"""The body of a graph."""

from collections.abc import AsyncGenerator

from durable_adk.calling.closing import closing
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.graph.attempt import NodeParts, RunAgent
from durable_adk.flows.graph.runs import NodeRuns
from durable_adk.flows.graph.schedule import GraphSchedule
from durable_adk.flows.graph.task import NodeTask
from durable_adk.flows.graph.worker import run_worker
from durable_adk.flows.invocation import Invocation
from durable_adk.sessions.branch_end import MAX_UNFINISHED, UnfinishedBranch
from durable_adk.wire.agent_stack import GraphPosition
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef, NodeRun, NodeSite
from durable_adk.wire.manifest import AgentNode, GraphRecord


def node_parts(invocation: Invocation, node: AgentNode, run_agent: RunAgent) -> NodeParts:
    """Return what the runs of a graph's nodes work with."""
    return NodeParts(invocation=invocation, node=node, run_agent=run_agent, run_worker=run_worker)


async def run_graph(
    invocation: Invocation, node: AgentNode, scope: AgentScope, run_agent: RunAgent
) -> AsyncGenerator[Event, None]:
    """Run a graph until nothing runs and no node is due (GR-74)."""
    parts = node_parts(invocation, node, run_agent)
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
    run.note_unsatisfied()
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
        if self.position.is_again:
            self.position.begin_again(scope.branch.next_id())
        self._schedule = GraphSchedule(parts.node.graph or GraphRecord(), self.position)
        if resumed is None:
            given = site.input
            if self._schedule.graph.reads:
                given = given.model_copy(update={"read_by": [*given.read_by, site.path]})
            self._schedule.begin(given, scope.ctx.branch)

    def begin(self) -> None:
        """See base class."""
        for name, run in list(self.position.runs.items()):
            self._launch(name, run)
        self._start_due()

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        end = task.end or NodeEnd(branch=task.run.branch)
        if self._schedule.ended(key, end) == [] and not self._schedule.is_terminal(key):
            self._note(UnfinishedBranch.of_node(task.site.path, end.route))
        self._start_due()

    def note_unsatisfied(self) -> None:
        """Record the joins that wait for nodes that do not run any more (B-30)."""
        for join, missing in self._schedule.unsatisfied().items():
            self._note(UnfinishedBranch(node=f"{self.position.path}/{join}", missing=missing))

    def _note(self, branch: UnfinishedBranch) -> None:
        known = self.parts.invocation.state.checkpoint.unfinished
        if len(known) < MAX_UNFINISHED:
            known.append(branch)

    def waits(self) -> None:
        """See base class."""
        self._start_due()

    def claim(self, task: NodeTask) -> None:
        """See base class."""
        self._schedule.claim_output(task.node.name)

    def _start_due(self) -> None:
        while not self.awaits_message and (name := self._schedule.next()) is not None:
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
