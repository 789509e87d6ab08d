"""Which nodes of a graph run, in which order and with which inputs (GR-66 to GR-72, GR-74).

All decisions follow the order in which the graph was declared, and nothing is hashed: each replay,
in whichever process, decides the same (B-17).
"""

from collections.abc import Sequence

from durable_adk.errors import WorkflowConfigurationError
from durable_adk.graph.base_node import START
from durable_adk.graph.routes import fired, route_values
from durable_adk.wire.agent_stack import Arrival, GraphPosition, Trigger
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef, NodeRun
from durable_adk.wire.manifest import GraphEdge, GraphNode, GraphRecord


class GraphSchedule:
    """Decides by a graph and a position, which it changes in place."""

    def __init__(self, graph: GraphRecord, position: GraphPosition) -> None:
        self.graph = graph
        self.position = position
        self._nodes = {node.name: node for node in graph.nodes}
        self._edges: dict[str, list[GraphEdge]] = {}
        for edge in graph.edges:
            self._edges.setdefault(edge.source, []).append(edge)
        self.terminals = [node.name for node in graph.nodes if self.is_terminal(node.name)]
        """The nodes that no edge leaves."""

    def node(self, name: str) -> GraphNode:
        """Return a node."""
        return self._nodes[name]

    def begin(self, value: NodeRef, branch: str | None) -> None:
        """Trigger the nodes behind START with the graph's input."""
        self._trigger(START.name, NodeEnd(output=value, branch=branch))

    def next(self) -> str | None:
        """Return the node that may begin a run now, or None (GR-69, GR-70)."""
        position, window = self.position, self.graph.window
        running = sum(not run.asked for run in position.runs.values())
        if window is not None and 0 < window <= running:
            return None
        return next((name for name in position.queues if name not in position.runs), None)

    def start(self, name: str) -> NodeRun:
        """Begin a run of a node with its oldest trigger."""
        position = self.position
        queue = position.queues[name]
        trigger = queue.pop(0)
        if not queue:
            del position.queues[name]
        number = position.started.get(name, 0) + 1
        position.started[name] = number
        run = NodeRun(
            run_id=number,
            input=trigger.input,
            branch=trigger.branch,
            event_id=f"{position.event_id}.{name}@{number}",
        )
        position.runs[name] = run
        return run

    def path(self, name: str) -> str:
        """Return the path of a node's latest run."""
        return f"{self.position.path}/{name}@{self.position.started[name]}"

    def is_terminal(self, name: str) -> bool:
        """Return whether a node's output is the graph's: no edge leaves it."""
        return name not in self._edges

    def unsatisfied(self) -> dict[str, list[str]]:
        """Return the joins that have not run with all that came to them, and what is missing."""
        return {
            join: [name for name in self._sources(join) if name not in arrived]
            for join, arrived in self.position.arrivals.items()
        }

    def _sources(self, join: str) -> list[str]:
        return list(dict.fromkeys(e.source for e in self.graph.edges if e.target == join))

    def claim_output(self, name: str) -> None:
        """Take a node's output as the graph's if it is, before it is stored (B-29).

        Raises:
            WorkflowConfigurationError: Another node has already ended the graph with an output.
        """
        if not self.is_terminal(name):
            return
        other = self.position.output_of
        if other not in (None, name):
            raise WorkflowConfigurationError(
                f"multiple terminal nodes produced output (2): {other!r} and {name!r}. A workflow "
                "must have at most one terminal output."
            )
        self.position.output_of = name

    def ended(self, name: str, end: NodeEnd) -> list[GraphEdge] | None:
        """Record the end of a node's run and trigger its successors.

        Returns:
            The edges that fired; None: the run is not the end of the node, which waits for its
            next trigger (GR-72).
        """
        del self.position.runs[name]
        no_output = end.output is None and not route_values(end.route)
        if self.node(name).waits_for_output and no_output:
            return None
        if self.is_terminal(name) and end.output is not None:
            self.claim_output(name)
            self.position.output = end.output
        return self._trigger(name, end)

    def _trigger(self, source: str, end: NodeEnd) -> list[GraphEdge]:
        edges = fired(self._edges.get(source, ()), end.route)
        several = len({edge.target for edge in edges}) > 1
        for edge in edges:
            if self.node(edge.target).joins:
                self._arrive(edge.target, source, end)
            else:
                branch = self._sub_branch(end.branch, edge.target) if several else end.branch
                self._add(edge.target, Trigger(input=end.output or NodeRef(), branch=branch))
        return edges

    def _add(self, target: str, trigger: Trigger) -> None:
        self.position.queues.setdefault(target, []).append(trigger)

    def _sub_branch(self, branch: str | None, target: str) -> str:
        """Return the branch of one of several nodes that are triggered together (GR-81)."""
        waiting = len(self.position.queues.get(target, ()))
        number = self.position.started.get(target, 0) + waiting + 1
        return ".".join(filter(None, (branch, f"{target}@{number}")))

    def _arrive(self, join: str, source: str, end: NodeEnd) -> None:
        """Record that a predecessor has completed; trigger the join with the last one (GR-57)."""
        arrived = self.position.arrivals.setdefault(join, {})
        arrived[source] = Arrival(output=end.output, branch=end.branch)
        sources = self._sources(join)
        if all(name in arrived for name in sources):
            del self.position.arrivals[join]
            parts = {name: arrived[name].output for name in sources if name != START.name}
            branch = common_branch([arrived[name].branch for name in sources])
            self._add(join, Trigger(input=NodeRef(parts=parts), branch=branch))


def common_branch(branches: Sequence[str | None]) -> str | None:
    """Return the branch that all of these are below of, or equal to (GR-81)."""
    split = [(branch or "").split(".") for branch in branches]
    common: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(filter(None, common)) or None
