"""Where the run of a graph is, as values that can be stored.

A position has references to events and never their contents, so its size does not depend on what
the nodes produce, nor on how often they ran (D3, D10).
"""

from typing import Literal

from pydantic import BaseModel, Field

from durable_adk.events.event_actions import RouteValue
from durable_adk.json_values import JsonModel
from durable_adk.wire.agent_stack import StackPosition


class NodeRef(JsonModel):
    """The input or the output of a node's run, read from the session where it is used."""

    event: str | None = None
    """Id of the event; None: the value is None, or that of `parts`."""
    take: Literal["output", "text", "message", "answer"] = "output"
    """What of the event is the value. ``message``: the user's message to the invocation."""
    of: "NodeRef | None" = None
    """The list of which the value is an item."""
    item: int | None = None
    """The item's index."""
    parts: dict[str, "NodeRef | None"] | None = None
    """The values of a dict: those of a join's predecessors, in the order of its edges."""

    @classmethod
    def user_message(cls) -> "NodeRef":
        """Return the input of an invocation's first node."""
        return cls(take="message")


class NodeSite(JsonModel):
    """The run of a node that a step belongs to."""

    path: str
    """As in `Event.node_info`: ``wf@1/a@2``."""
    prefix: str
    """The prefix of the ids of the attempt's events."""
    input: NodeRef
    attempt: int = 1
    output_for: list[str] = Field(default_factory=list[str])
    """The paths whose output the run's output is: its own, and those of graphs that end with it."""
    scope: str | None = None
    """The `isolation_scope` of its events."""
    answered: list[str] = Field(default_factory=list[str])
    """See `NodeRun.answered`."""


class Trigger(BaseModel):
    """One run of a node that is due (GR-66)."""

    input: NodeRef
    branch: str | None = None


class NodeRun(BaseModel):
    """A run of a node that has begun."""

    run_id: int
    """1, 2, ... for each node of a run of the graph (GR-71)."""
    input: NodeRef
    branch: str | None = None
    attempt: int = 1
    event_id: str = ""
    """The prefix of the ids of its events."""
    asked: list[str] = Field(default_factory=list[str])
    """The calls that wait for an answer, in the order in which they were made."""
    answered: list[str] = Field(default_factory=list[str])
    """The calls of the run that were answered, in the order of the answers."""
    again_at: float | None = None
    """When the next attempt begins, in seconds since the epoch; None: it has begun."""


class Arrival(BaseModel):
    """A predecessor of a join that has completed since the join ran."""

    output: NodeRef | None = None
    branch: str | None = None


class GraphPosition(StackPosition):
    """The run of a graph (GR-66 to GR-72, GR-74)."""

    path: str
    event_id: str
    """The prefix of the ids of all its nodes' events."""
    queues: dict[str, list[Trigger]] = Field(default_factory=dict[str, list[Trigger]])
    """Runs that are due, by node, in the order of their first triggers."""
    runs: dict[str, NodeRun] = Field(default_factory=dict[str, NodeRun])
    """Runs that have begun, by node, in the order in which they began."""
    started: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of runs that have begun, by node."""
    arrivals: dict[str, dict[str, Arrival]] = Field(default_factory=dict[str, dict[str, Arrival]])
    """What has come to each join since it ran, by predecessor."""
    output: NodeRef | None = None
    """The last output of the node that ends the graph."""
    output_of: str | None = None
    """That node; a graph has one output (GR-74)."""


class WorkerPosition(StackPosition):
    """The run of a parallel worker (GR-59, GR-60)."""

    event_id: str
    """The prefix of the ids of all its items' events."""
    items: int | None = None
    """Their number; None: it is not known yet."""
    begun: int = 0
    """Number of items that have begun, in the order of the list."""
    runs: dict[str, NodeRun] = Field(default_factory=dict[str, NodeRun])
    """Those that have begun and not ended, by number from 1."""


class NodeEnd(JsonModel):
    """How a run of a node ended."""

    output: NodeRef | None = None
    """None: there is none, and its successors are given None."""
    route: RouteValue | list[RouteValue] | None = None
    branch: str | None = None
    items: int | None = None
    """For a worker that has not run them yet: the number of its items."""
