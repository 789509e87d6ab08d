"""The stack of running agents and graphs of an invocation, as values that can be stored.

The code that runs an agent keeps its position in a `StackPosition` and changes that value in place.
So the stack is always up to date, and continue-as-new has nothing to collect (D10).

Positions of graphs have references to events and never their contents, so their size does not
depend on what the nodes produce, nor on how often they ran (D3).
"""

from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    field_serializer,
    model_serializer,
)

from durable_adk.events.event import Event
from durable_adk.wire.effect import ErrorDetail
from durable_adk.wire.graph.node_run import CalledRun, NodeRef, NodeRun
from durable_adk.wire.graph.ranges import Ranges
from durable_adk.wire.manifest import AgentNode, HandOver, Wait


class StackPosition(BaseModel):
    """Position of the code that runs one level of the stack."""


P = TypeVar("P", bound=StackPosition)


class StackFrame(BaseModel):
    """One level of the agent stack: a position, and the levels below it by name.

    After continue-as-new the same code runs again from the top. It finds the frames of the previous
    workflow run with `enter`, and takes each position once with `resumed`.
    """

    position: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The stored position, until it is resumed."""
    below: dict[str, "StackFrame"] = Field(default_factory=dict[str, "StackFrame"])
    """The stored frames, until they are entered."""
    _position: StackPosition | None = PrivateAttr(default=None)
    _entered: dict[str, "StackFrame"] = PrivateAttr(default_factory=dict[str, "StackFrame"])

    def resumed(self, kind: type[P]) -> P | None:
        """Return the position of the previous workflow run, once; None if this level is new."""
        position, self.position = self.position, {}
        return self.hold(kind.model_validate(position, extra="ignore")) if position else None

    def hold(self, position: P) -> P:
        """Keep a position, which its owner changes in place."""
        self._position = position
        return position

    def enter(self, name: str = "") -> "StackFrame":
        """Return the frame of a level that starts, or is resumed, below this one."""
        frame = self.below.pop(name, None) or StackFrame()
        self._entered[name] = frame
        return frame

    def leave(self, name: str) -> None:
        """Drop the frame of a level below this one that has ended."""
        self._entered.pop(name, None)

    def clear(self) -> None:
        """Drop the position and all frames, because another agent takes over this level."""
        self.position, self.below, self._position, self._entered = {}, {}, None, {}

    def begin_again(self) -> bool:
        """Begin another attempt: only graphs keep what has ended in them (GR-114).

        Returns:
            Whether anything is kept.
        """
        position, entered = self._position, self._entered
        self.clear()
        if not isinstance(position, GraphPosition | RunPosition | None):
            return False
        self.below = {name: frame for name, frame in entered.items() if frame.begin_again()}
        if isinstance(position, GraphPosition):
            self.position = position.model_dump(mode="json") | {"is_again": True}
        return bool(self.position or self.below)

    @model_serializer
    def _stored(self) -> dict[str, Any]:
        # What is not resumed yet stays as it is: a run of this workflow may begin no attempt.
        position = self._position.model_dump(mode="json") if self._position else self.position
        frames = self.below | self._entered
        return {
            "position": position,
            "below": {name: frame.model_dump() for name, frame in frames.items()},
        }


class HandedOver(BaseModel):
    """An agent that has transferred to another one; its after callbacks are yet to run."""

    agent: str
    start: int


class RunPosition(StackPosition):
    """The running agent of one level, on which agents transfer to each other."""

    agent: str
    node: AgentNode | None = None
    """Set only if a deploy added the agent after the opening, so that no manifest has it."""
    start: int
    """The session's revision when the agent's run began."""
    closes: bool
    """Whether the agent's final text closes the invocation."""
    body: str | None = None
    """Name of the journal of a custom agent's body."""
    run: int | None = None
    """Number of the run, for telemetry; None: it has not begun."""
    transfer: HandOver | None = None
    """The agent to which its code has handed over, which runs next."""
    unfinished: list[HandedOver] = Field(default_factory=list[HandedOver])


class SequentialPosition(StackPosition):
    """The child that a SequentialAgent is running."""

    at: int = 0


class LoopPosition(StackPosition):
    """The current iteration and child of a LoopAgent."""

    rounds: int = 0
    at: int = 0
    silent: bool = True
    """Whether the iteration has produced no event."""
    escalated: bool = False


class ChildPosition(BaseModel):
    """One child of a ParallelAgent."""

    open: bool = True
    stopped: bool = False
    """Whether it was cancelled."""
    open_call_events: list[Event] = Field(default_factory=list[Event])
    """Events with calls that have no response, and with the responses to their other calls."""

    @field_serializer("open_call_events")
    def _short(self, events: list[Event]) -> list[dict[str, Any]]:
        return [_short(event) for event in events]


class ParallelPosition(StackPosition):
    """The children of a ParallelAgent."""

    event_id: str
    """The event id from which the names of their branches are derived."""
    children: list[ChildPosition]


class DynamicNodePosition(StackPosition):
    """The run of a node that the code of another one has called."""

    run: NodeRun


class TurnPosition(BaseModel):
    """The calls of one model event, until all of them have responses."""

    event: Event
    transfer: HandOver | None = None
    """The agent to which a callback of the model hands over: the calls do not run then."""
    waits: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """Deadlines and their effects, by the ids of long-running calls."""
    requests: dict[str, str] = Field(default_factory=dict[str, str])
    """Ids of the calls that requests to the user are about, by the ids of the requests."""
    interim: set[str] = Field(default_factory=set[str])
    """Long-running calls with an interim result but no final one."""
    called: dict[str, CalledRun] = Field(default_factory=dict[str, CalledRun])
    """The runs of nodes, by the ids of the calls that have no response yet for them."""
    waiting: list[str] | None = None
    """The calls and requests for which the turn waits; None: its calls have not run yet."""
    responded: bool = False
    """Whether any call has a response."""
    final: bool = False
    """Whether the last response ends the agent's run."""
    finished: bool = False
    """Whether a call of `finish_task` has ended the agent's task."""
    answer: Any = None
    """The model's final output, if it came by `set_model_response`."""

    @field_serializer("event")
    def _event(self, event: Event) -> dict[str, Any]:
        return _short(event)

    @field_serializer("interim")
    def _sorted(self, names: set[str]) -> list[str]:
        return sorted(names)


class LlmPosition(StackPosition):
    """The body of an LlmAgent."""

    unsettled: set[str] = Field(default_factory=set[str])
    """Long-running calls with an interim result: the model may respond, but the run cannot end."""
    final: bool = False
    """Whether the run has ended except for `unsettled`."""
    turn: TurnPosition | None = None
    """The turn whose calls do not all have responses yet."""
    open: list[TurnPosition] = Field(default_factory=list[TurnPosition])
    """Earlier turns with requests to the user that are in `unsettled`."""
    single_turns: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of runs of each `single_turn` sub-agent, which count them in their paths."""
    more: list[TurnPosition] = Field(default_factory=list[TurnPosition])
    """Further responses of the last model call, whose turns have not begun."""
    error: ErrorDetail | None = None
    """`errors.as_detail` of the error that the model raised after these responses."""

    @field_serializer("unsettled")
    def _sorted(self, names: set[str]) -> list[str]:
        return sorted(names)


class Trigger(BaseModel):
    """One run of a node that is due (GR-66)."""

    input: NodeRef
    branch: str | None = None


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
    is_again: bool = False
    """Whether another attempt of the graph is about to begin; see `begin_again`."""

    def begin_again(self, event_id: str) -> None:
        """Begin another attempt: the runs that had not ended begin anew (GR-114)."""
        self.is_again, self.event_id = False, event_id
        self.runs = {
            name: NodeRun(
                run_id=run.run_id,
                input=run.input,
                branch=run.branch,
                event_id=f"{event_id}.{name}@{run.run_id}",
            )
            for name, run in self.runs.items()
        }


class WorkerPosition(StackPosition):
    """The run of a parallel worker (GR-59, GR-60)."""

    event_id: str
    """The prefix of the ids of all its items' events."""
    items: int | None = None
    """Their number; None: it is not known yet."""
    due: Ranges = Field(default_factory=Ranges)
    """The items that have not begun, by number from 1."""
    counted: int = 0
    """The last item that counts as a run of a node."""
    stored: Ranges = Field(default_factory=Ranges)
    """See `ItemOutputs`."""
    others: dict[str, NodeRef] = Field(default_factory=dict[str, NodeRef])
    """See `ItemOutputs`."""
    runs: dict[str, NodeRun] = Field(default_factory=dict[str, NodeRun])
    """The items that have begun and not ended, by number."""


def _short(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json", exclude_none=True)
