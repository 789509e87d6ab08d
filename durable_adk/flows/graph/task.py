"""A run of a node, while it runs."""

import asyncio
from dataclasses import dataclass, field

from durable_adk.errors import DurableAdkError
from durable_adk.flows.agent_scope import AgentScope, Branch
from durable_adk.wire.graph.node_run import NodeEnd, NodeRun, NodeSite
from durable_adk.wire.manifest import GraphNode
from durable_adk.wire.steps import StepResult


@dataclass(eq=False)
class NodeTask:
    """One run of a node."""

    key: str
    """Its name among those that run now."""
    node: GraphNode
    run: NodeRun
    site: NodeSite
    """The run for steps; see `current_site`."""
    scope: AgentScope
    """The graph's scope, on the branch of the run."""
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    end: NodeEnd | None = None
    outcome: StepResult | DurableAdkError | None = None
    """How its first step has ended in a batch; None: it has to be performed."""

    def begin_again(self) -> None:
        """Begin another attempt: nothing of the last one is an agent's any more."""
        self.run.awaits_message = False
        self.scope.frame.begin_again()
        last = self.scope.branch
        last.leave()
        self.scope.branch = Branch(attempt_prefix(self.run), last.branches, last.timers)

    def current_site(self) -> NodeSite:
        """Return the site as the present attempt and pass have it."""
        return self.site.model_copy(
            update={
                "prefix": self.scope.branch.prefix,
                "attempt": self.run.attempt,
                "answered": list(self.run.answered),
            }
        )


def attempt_prefix(run: NodeRun) -> str:
    """Return the prefix of the ids of an attempt's events."""
    return run.event_id if run.attempt == 1 else f"{run.event_id}~{run.attempt}"
