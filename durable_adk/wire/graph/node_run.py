"""Runs of nodes: their inputs, outputs and ends, as references to events and never as values."""

import re
from typing import Any, Literal

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer

from durable_adk.events.event_actions import EventActions, RouteValue
from durable_adk.json_values import JsonModel
from durable_adk.wire.effect import ErrorDetail
from durable_adk.wire.graph.ranges import Ranges, numbers_in
from durable_adk.wire.manifest import AgentNode, CallMode


class NodeRef(JsonModel):
    """The input or the output of a node's run, read from the session where it is used."""

    event: str | None = None
    """Id of the event; None: the value is None, or that of `parts`."""
    take: Literal["output", "text", "message", "answer", "given", "arguments"] = "output"
    """What of the event is the value. ``message``: the user's message to the invocation;
    ``given``: what the code that has called the node gave it, by the prefix of its event ids;
    ``arguments``: those of a model's call."""
    call: str | None = None
    """The call's id."""
    changed: dict[str, Any] | None = None
    """The arguments instead of the call's own, if they are others."""
    key: str | None = None
    """The argument that is the value; None: all of them are."""
    of: "NodeRef | None" = None
    """The list of which the value is an item."""
    item: int | None = None
    """The item's index."""
    split_by: str | None = None
    """The path of the worker that splits the list."""
    listed: "ItemOutputs | None" = None
    """The value is the list of the outputs of a worker's items."""
    parts: dict[str, "NodeRef | None"] | None = None
    """The values of a dict: those of a join's predecessors, in the order of its edges."""
    read_by: list[str] = Field(default_factory=list[str])
    """The paths of the graphs whose `input_schema` the value is converted by, in this order."""

    @classmethod
    def user_message(cls) -> "NodeRef":
        """Return the input of an invocation's first node."""
        return cls(take="message")


class ItemOutputs(JsonModel):
    """The outputs of a worker's items, by number from 1; few bytes, however many these are."""

    prefix: str
    """The prefix of the ids of all items' events."""
    count: int
    """Number of the items."""
    stored: Ranges = Field(default_factory=Ranges)
    """The items whose first step has stored their output; its event's id is `item_event`."""
    others: dict[str, NodeRef] = Field(default_factory=dict[str, NodeRef])
    """The outputs of other items, by number; none for an item without output."""

    def refs(self) -> list[NodeRef | None]:
        """Return a reference to each item's output, in order; None: it has none."""
        found = {str(number): self.ref(number) for number in numbers_in(self.stored)} | self.others
        return [found.get(str(number)) for number in range(1, self.count + 1)]

    def ref(self, number: int) -> NodeRef:
        """Return a reference to the output of the first step of an item."""
        return NodeRef(event=item_event(self.prefix, number))


NodeRef.model_rebuild()  # it names `ItemOutputs`


def item_event(prefix: str, number: int) -> str:
    """Return the id of the event of the first step of a worker's item."""
    return f"{prefix}.{number}.1"


_ATTEMPT = re.compile(r"~[0-9]+")
"""The part of a prefix of event ids that distinguishes a node's attempts."""


def run_key(prefix: str) -> str:
    """Return what all attempts of a run, and of the graphs around it, have in common.

    Args:
        prefix: See `NodeSite.prefix`.
    """
    return _ATTEMPT.sub("", prefix)


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
    journal: str | None = None
    """See `DynamicNodes.journal`."""
    resumed: list[str] = Field(default_factory=list[str])
    """The calls that were answered since the node's code ran."""
    below: list[str] = Field(default_factory=list[str])
    """Those of `asked` that are not of its own code, but of nodes that this has called."""
    awaits_message: bool = False
    """Whether its task agent waits for a message of the user."""
    again_at: float | None = None
    """When the next attempt begins, in seconds since the epoch; None: it has begun."""
    due: float | None = None
    """When the attempt's time is up, in seconds since the epoch; None: never, or it waits."""
    left: float | None = None
    """Seconds that the attempt has left, while it waits for answers."""

    @model_serializer(mode="wrap")
    def _short(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        said: dict[str, Any] = whole(self)
        return {name: value for name, value in said.items() if value not in (None, [])}


class CalledNode(BaseModel):
    """A call that runs a node in the session of its agent (GR-175, GR-176, GR-192)."""

    mode: CallMode
    node: AgentNode
    """As it was when the call was made."""
    input: NodeRef
    actions: EventActions = Field(default_factory=EventActions)
    """Changes made by the callbacks before the call."""
    changed: dict[str, Any] | None = None
    """The arguments, if callbacks or the node's schema have changed them."""


class CalledEnd(BaseModel):
    """How the node of a call has ended."""

    output: NodeRef | None = None
    error: ErrorDetail | None = None
    """`errors.as_detail` of the error that it failed with."""
    actions: EventActions = Field(default_factory=EventActions)
    """Copied from `CalledNode.actions`."""
    changed: dict[str, Any] | None = None
    """Copied from `CalledNode.changed`."""


class CalledRun(BaseModel):
    """The run of a `CalledNode`."""

    called: CalledNode
    path: str
    run: NodeRun
    begun: bool = False
    end: CalledEnd | None = None


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
    ends: bool = True
    """Whether an agent's final text is the run's output at once: nothing follows in the run."""
    scope: str | None = None
    """The `isolation_scope` of its events."""
    answered: list[str] = Field(default_factory=list[str])
    """See `NodeRun.answered`."""


class NodeEnd(JsonModel):
    """How a run of a node ended."""

    output: NodeRef | None = None
    """None: there is none, and its successors are given None."""
    route: RouteValue | list[RouteValue] | None = None
    branch: str | None = None
    items: int | None = None
    """For a worker that has not run them yet: the number of its items."""
