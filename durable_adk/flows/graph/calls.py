"""The nodes that a model's calls run in its session: sub-agents and graphs (GR-175 to GR-177).

Each is a run below that of its agent, with a branch of its own. Its position is in the turn of the
calls, so that the turn may wait for days, and across workflow runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from durable_adk.errors import DurableAdkError, as_detail
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.graph.attempt import RunAgent
from durable_adk.flows.graph.body import node_parts
from durable_adk.flows.graph.retries import OF_INVOCATION
from durable_adk.flows.graph.runs import NodeRuns
from durable_adk.flows.graph.task import NodeTask
from durable_adk.flows.invocation import Invocation
from durable_adk.wire.agent_stack import TurnPosition
from durable_adk.wire.graph.node_run import (
    CalledEnd,
    CalledNode,
    CalledRun,
    NodeRef,
    NodeRun,
    NodeSite,
)
from durable_adk.wire.manifest import AgentNode, GraphNode


def site_of(scope: AgentScope) -> NodeSite:
    """Return the run of an agent; one that is no node of a graph has one for the runs below it."""
    if scope.call is not None:
        return scope.call.site
    return NodeSite(
        path=f"{scope.node.name}@1", prefix=scope.branch.prefix, input=NodeRef.user_message()
    )


def begun_run(
    called: CalledNode, call_id: str, scope: AgentScope, counts: dict[str, int]
) -> CalledRun:
    """Return the run of a node that a call asks for.

    Args:
        called: The node.
        call_id: The call.
        scope: The agent that made it.
        counts: Number of runs of each `single_turn` sub-agent; changed in place.
    """
    name = called.node.name
    # Providers may put anything into a call's id; in a path and a branch it is one segment.
    run_id = quote(call_id, safe="").replace(".", "%2E")
    path_id = f"call-{run_id}" if run_id.isdecimal() else run_id  # see `is_of_call`
    if called.mode == "single_turn":
        counts[name] = counts.get(name, 0) + 1
        path_id = str(counts[name])
    run = NodeRun(
        run_id=1,
        input=called.input,
        branch=".".join(filter(None, (scope.ctx.branch, f"{name}@{run_id}"))),
        event_id=scope.branch.next_id(),
    )
    return CalledRun(called=called, path=f"{site_of(scope).path}/{name}@{path_id}", run=run)


def next_calls(turn: TurnPosition) -> list[str]:
    """Return the calls whose nodes run next: side by side, but tasks one after the other."""
    together = [name for name, one in turn.called.items() if one.called.mode != "task"]
    return together or list(turn.called)[:1]


class CalledNodes(NodeRuns):
    """The runs of the nodes of some calls of one turn.

    Args:
        invocation: The invocation.
        scope: The agent that made the calls.
        run_agent: Runs an agent or a graph.
        runs: The runs by call; changed in place.
    """

    closes_calls = True

    def __init__(
        self,
        invocation: Invocation,
        scope: AgentScope,
        run_agent: RunAgent,
        runs: dict[str, CalledRun],
    ) -> None:
        nodes = [one.called.node for one in runs.values()]
        node = AgentNode(name=scope.node.name, kind="graph", children=nodes)
        parts = node_parts(invocation, node, run_agent)
        own = replace(scope, frame=scope.frame.enter(_FRAME))
        super().__init__(parts, own, site_of(scope))
        self._runs = runs

    def begin(self) -> None:
        """See base class."""
        for call_id, one in self._runs.items():
            if one.end is not None:
                continue
            if not one.begun:
                self.count()
                one.begun = True
            self.launch(call_id, _graph_node(one), one.run, self._site_of(call_id, one))

    def _site_of(self, call_id: str, one: CalledRun) -> NodeSite:
        return NodeSite(
            path=one.path,
            prefix=one.run.event_id,
            input=one.run.input,
            output_for=[one.path],
            scope=call_id if one.called.mode == "task" else self.site.scope,
        )

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        self._end(key, CalledEnd(output=task.end.output if task.end else None))

    def failed(self, key: str, task: NodeTask, error: BaseException) -> None:
        """See base class: the error is the response of the call."""
        del task
        late = error is self.parts.invocation.pending.failure
        if late or isinstance(error, OF_INVOCATION) or not isinstance(error, DurableAdkError):
            raise error
        self._end(key, CalledEnd(error=as_detail(error)))

    def _end(self, key: str, end: CalledEnd) -> None:
        called = self._runs[key].called
        end.actions, end.changed = called.actions, called.changed
        self._runs[key].end = end


_FRAME = "calls"


def leave(scope: AgentScope, runs: Sequence[CalledRun]) -> None:
    """Drop the frames of runs that have ended."""
    if runs:
        scope.frame.leave(_FRAME)


def _graph_node(one: CalledRun) -> GraphNode:
    return GraphNode(name=one.called.node.name, kind="agent", reruns=True)
