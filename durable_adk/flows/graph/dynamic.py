"""The run of a node that the code of another node has called (GR-151)."""

from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.graph.attempt import NodeParts
from durable_adk.flows.graph.runs import NodeRuns
from durable_adk.flows.graph.task import NodeTask
from durable_adk.wire.agent_stack import DynamicNodePosition
from durable_adk.wire.graph.node_run import NodeEnd, NodeRun, NodeSite


class DynamicNodeRun(NodeRuns):
    """One run, with its attempts.

    Args:
        parts: The node, as a graph of it alone.
        scope: The run of that graph.
        site: The run for steps.
        run: The run, if it has not begun before.
    """

    closes_calls = True

    def __init__(self, parts: NodeParts, scope: AgentScope, site: NodeSite, run: NodeRun) -> None:
        super().__init__(parts, scope, site)
        resumed = scope.frame.resumed(DynamicNodePosition)
        self._begins = resumed is None
        self._run = (resumed or scope.frame.hold(DynamicNodePosition(run=run))).run
        self.end = NodeEnd(branch=run.branch)

    def begin(self) -> None:
        """See base class."""
        if self._begins:
            self.count()
        node = self.parts.node.graph
        if node is None:
            raise AssertionError("a called node is recorded as a graph")
        self.launch(node.nodes[0].name, node.nodes[0], self._run, self.site)

    def ended(self, key: str, task: NodeTask) -> None:
        """See base class."""
        del key
        self.end = task.end or self.end
