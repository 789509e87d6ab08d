"""An agent that runs its sub-agents one after another."""

from durable_adk.agents.workflow_agent import WorkflowAgent
from durable_adk.wire.manifest import NodeKind


class SequentialAgent(WorkflowAgent):
    """Runs each sub-agent once, in order, over the same state (AGT-30, AGT-31)."""

    def _kind(self) -> NodeKind:
        return "sequential"
