"""The agent that runs its sub-agents side by side."""

from durable_adk.agents.workflow_agent import WorkflowAgent
from durable_adk.wire.manifest import NodeKind


class ParallelAgent(WorkflowAgent):
    """Runs its sub-agents at the same time, each on a branch of its own (semantics AGT-33, AGT-34).

    They share the state but do not see each other's events; agents that run afterwards see all of
    them. When one fails, the others are cancelled; when one escalates, too.
    """

    def _kind(self) -> NodeKind:
        return "parallel"
