"""An agent that runs its sub-agents repeatedly."""

from durable_adk.agents.workflow_agent import WorkflowAgent
from durable_adk.wire.manifest import AgentNode, NodeKind


class LoopAgent(WorkflowAgent):
    """Runs its sub-agents in order, repeatedly, until one escalates (AGT-32).

    The sub-agent that escalates finishes its own run first (OPEN-2). An escalation in a nested loop
    ends the outer one too, because its event passes through both (TRAP-31).
    """

    max_iterations: int | None = None
    """Maximum number of iterations; 0 or less runs none, None runs until a sub-agent escalates."""

    def _kind(self) -> NodeKind:
        return "loop"

    def node(self) -> AgentNode:
        """Return the manifest entry; see `BaseAgent.node`."""
        node = super().node()
        node.max_iterations = self.max_iterations
        return self._describe(node)
