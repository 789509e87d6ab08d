"""The manifest: agents and tools as recorded when an invocation opens (D6).

The loop runs agents by this record, not by the objects that a worker has now, so a deploy does not
disturb open invocations.
"""

from typing import Any, Literal

from pydantic import Field

from durable_adk.events.event_actions import RouteValue
from durable_adk.json_values import JsonModel
from durable_adk.wire.tool_contract import RetryConfig, ToolContract

OnDeadline = Literal["reject", "approve", "fail", "tell"]
"""What happens if a pending call gets no answer in time (D9).

``reject`` and ``approve`` decide a confirmation, ``fail`` ends the run with an error, ``tell``
continues and reports to the model that there was no answer.
"""


class Wait(JsonModel):
    """How long a pending call waits for its answer, and what happens then (D9)."""

    deadline: float | None = None
    """Seconds; None: no deadline."""
    on_deadline: OnDeadline = "tell"
    """``tell``: the model; ``reject`` and ``approve`` decide a confirmation; ``fail``: the run."""


class ToolSpec(JsonModel):
    """The properties of a tool that the loop needs."""

    timeout: float | None = None
    """Seconds; None: the worker's default."""
    heartbeat_timeout: float | None = None
    """Seconds; None: the worker's default."""
    contract: ToolContract | None = None
    """The contract; None: at least once."""
    retry: RetryConfig | None = None
    task_queue: str | None = None
    """The tool's task queue; None: the invocation's."""
    delegates: bool = False
    """Whether the workflow runs an agent, or an activity of others, for a call."""

    @property
    def apart(self) -> bool:
        """Whether its calls are never performed in one activity with other steps."""
        at_most_once = self.contract is ToolContract.AT_MOST_ONCE
        own = self.task_queue is not None or self.heartbeat_timeout is not None
        return self.delegates or at_most_once or own


class GraphEdge(JsonModel):
    """An edge of a graph (GR-14)."""

    source: str
    target: str
    route: RouteValue | list[RouteValue] | None = None
    """See `graph.routes.fired`."""


GraphNodeKind = Literal["function", "tool", "join", "worker", "agent", "node"]
"""The kind of a node. ``agent``: one that the loop drives, also a graph inside of the graph;
``node``: an object with code of its own."""


class GraphNode(JsonModel):
    """One node of a graph."""

    name: str
    kind: GraphNodeKind
    joins: bool = False
    """Whether it runs once all its predecessors have ended since its last run (GR-57)."""
    reruns: bool = False
    """Whether its code runs again after an answer, and not the answer is its output."""
    calls: bool = False
    """Whether its code may call other nodes (GR-150)."""
    waits_for_output: bool = False
    """Whether it has not completed without an output or a route (GR-72)."""
    retry: dict[str, Any] | None = None
    """A `NodeRetryConfig`; None: no retry."""
    timeout: float | None = None
    """Seconds of one attempt; None: the default of a tool, or for an agent none."""
    task_queue: str | None = None
    """Task queue of its steps; None: the invocation's."""
    contract: ToolContract | None = None
    """The contract of the tool that it is; None: at least once."""
    window: int | None = None
    """Number of items of a worker that may run at once; None: any."""
    inner: "GraphNode | None" = None
    """The node that a worker runs for each item."""

    @property
    def apart(self) -> bool:
        """Whether its steps are never performed in one activity with others."""
        return self.task_queue is not None or self.contract is ToolContract.AT_MOST_ONCE


class GraphRecord(JsonModel):
    """A graph, in the order in which it was declared: the order decides (GR-17)."""

    nodes: list[GraphNode] = Field(default_factory=list[GraphNode])
    """Without START."""
    edges: list[GraphEdge] = Field(default_factory=list[GraphEdge])
    window: int | None = None
    """Number of nodes that may run at once; None: any (GR-11)."""
    reads: bool = False
    """Whether the graph converts its input by a schema of its own (GR-190)."""


NodeKind = Literal["llm", "sequential", "loop", "parallel", "graph", "custom"]
"""The kind of an agent's body; ``custom``: its own code, which runs in the loop."""


CallMode = Literal["task", "single_turn", "graph"]
"""How a model's call runs a node: a sub-agent of one of these modes, or a graph."""


class AgentNode(JsonModel):
    """One agent, or graph, of the tree as it was when the invocation opened (D6)."""

    name: str
    kind: NodeKind
    before_agent: bool = False
    after_agent: bool = False
    tools: dict[str, ToolSpec] = Field(default_factory=dict[str, ToolSpec])
    """Only the tools that differ from the defaults."""
    max_iterations: int | None = None
    """Maximum iterations of a LoopAgent."""
    runs_code: bool = False
    """Whether a worker, and not the provider, runs the code that the model writes (FLW-90)."""
    code_timeout: float | None = None
    """Seconds one execution may take; None: the timeout of a tool."""
    model: str | None = None
    """Name of the agent's model."""
    mode: Literal["task", "single_turn"] | None = None
    """Set for an LlmAgent that does not chat; see `LlmAgent.mode`."""
    output_key: str | None = None
    """Set for an agent whose output comes from `set_model_response` through the loop (AGT-19)."""
    graph: GraphRecord | None = None
    """The nodes of a graph; its agents, and the graphs in it, are `children`."""
    children: list["AgentNode"] = Field(default_factory=list["AgentNode"])
    fingerprint: str = ""

    def find(self, name: str) -> "AgentNode | None":
        """Return the node of this name in the tree, depth first, or None (AGT-3)."""
        if self.name == name:
            return self
        return next((found for child in self.children if (found := child.find(name))), None)

    def names(self) -> list[str]:
        """Return the names of all agents in the tree, depth first."""
        return [self.name, *(name for child in self.children for name in child.names())]

    def any_custom(self) -> bool:
        """Return whether any agent is custom: its code runs in the loop and needs the state."""
        return self.kind == "custom" or any(child.any_custom() for child in self.children)


class HandOver(JsonModel):
    """The agent to which a step's code hands over by `EventActions.transfer_to_agent` (AGT-50)."""

    name: str
    node: AgentNode | None = None
    """The agent on the step's worker: one that a deploy added after the opening is in no manifest
    (D6). None: it does not exist, or the agent may not hand over to it."""
