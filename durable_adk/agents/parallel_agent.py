"""An agent that runs its sub-agents in parallel."""

from durable_adk.agents.workflow_agent import WorkflowAgent
from durable_adk.wire.manifest import NodeKind


class ParallelAgent(WorkflowAgent):
    """Runs its sub-agents concurrently, each on its own branch (AGT-33, AGT-34).

    Sub-agents share the state but do not see each other's events; agents that run afterwards see
    all of them. When one sub-agent fails or escalates, the others are cancelled.
    """

    def _kind(self) -> NodeKind:
        return "parallel"
