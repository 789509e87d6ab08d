"""The agents an invocation is running, from the first one inwards, in values that can be stored.

Whatever drives an agent keeps where it is in a `StackPosition`, and works on that value directly.
So the stack is always up to date, and continue-as-new has nothing to collect (design D10).

The JSON is read by other releases: fields are added, never renamed or removed.
"""

from typing import Any, TypeVar

from pydantic import BaseModel, Field, PrivateAttr, field_serializer, model_serializer

from durable_adk.events.event import Event
from durable_adk.wire.manifest import AgentNode, Wait


class StackPosition(BaseModel):
    """Where the code that drives one level of the stack is."""


P = TypeVar("P", bound=StackPosition)


class StackFrame(BaseModel):
    """One level of the agent stack: a position, and by name the levels below it.

    After continue-as-new the same code runs again from the top. It finds the frames of the previous
    workflow run by `enter`, and takes each position over with `resumed`, once.
    """

    told: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The position as it was stored, until it is resumed."""
    below: dict[str, "StackFrame"] = Field(default_factory=dict[str, "StackFrame"])
    """The frames as they were stored, until they are entered."""
    _position: StackPosition | None = PrivateAttr(default=None)
    _entered: dict[str, "StackFrame"] = PrivateAttr(default_factory=dict[str, "StackFrame"])

    def resumed(self, kind: type[P]) -> P | None:
        """The position of the previous workflow run, once; None for what begins now."""
        told, self.told = self.told, {}
        return self.hold(kind.model_validate(told, extra="ignore")) if told else None

    def hold(self, position: P) -> P:
        """Keep a position; its owner changes it in place."""
        self._position = position
        return position

    def enter(self, name: str = "") -> "StackFrame":
        """The frame of what begins, or is resumed, below this one."""
        frame = self.below.pop(name, None) or StackFrame()
        self._entered[name] = frame
        return frame

    def leave(self, name: str) -> None:
        """Drop the frame of what has ended below this one."""
        self._entered.pop(name, None)

    def clear(self) -> None:
        """Forget everything here: another agent takes over this level."""
        self.told, self.below, self._position, self._entered = {}, {}, None, {}

    @model_serializer
    def _stored(self) -> dict[str, Any]:
        position = self._position.model_dump(mode="json") if self._position else {}
        return {
            "told": position,
            "below": {name: frame.model_dump() for name, frame in self._entered.items()},
        }


class HandedOver(BaseModel):
    """An agent that has handed over to another one; its after callbacks still have to run."""

    agent: str
    start: int


class RunPosition(StackPosition):
    """One level on which agents run and hand over to each other; the one that runs now."""

    agent: str
    node: AgentNode | None = None
    """Only if a deploy has added the agent since the opening, so that no manifest has it."""
    start: int
    """The session's revision when the agent's run began."""
    closes: bool
    """Whether the agent's final text closes the invocation."""
    body: str | None = None
    """Name of the journal of a custom agent's body."""
    run: int | None = None
    """Number of the run, for telemetry; None: written by a release that did not count."""
    unfinished: list[HandedOver] = Field(default_factory=list[HandedOver])


class SequentialPosition(StackPosition):
    """The child that a SequentialAgent runs."""

    at: int = 0


class LoopPosition(StackPosition):
    """The round and the child of a LoopAgent."""

    rounds: int = 0
    at: int = 0
    silent: bool = True
    """Whether the round has had no event."""
    escalated: bool = False


class ChildPosition(BaseModel):
    """One child of a ParallelAgent."""

    open: bool = True
    stopped: bool = False
    """Whether it was cancelled."""
    asked: list[Event] = Field(default_factory=list[Event])
    """Its events with calls that have no response, and the responses to their other calls."""

    @field_serializer("asked")
    def _short(self, events: list[Event]) -> list[dict[str, Any]]:
        return [_short(event) for event in events]


class ParallelPosition(StackPosition):
    """The children of a ParallelAgent."""

    place: str
    """The event id after which their branches are named."""
    children: list[ChildPosition]


class TurnPosition(BaseModel):
    """The calls of one model event, until all of them are answered."""

    event: Event
    waits: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """By call id, how long a long-running call may wait."""
    requests: dict[str, str] = Field(default_factory=dict[str, str])
    """By the id of a request to the user, the id of the call it is about."""
    interim: set[str] = Field(default_factory=set[str])
    """Long-running calls that have given a first result, but not their last."""
    waiting: list[str] | None = None
    """The calls and requests that the turn waits for; None: its calls have not run yet."""
    responded: bool = False
    """Whether any call has a response."""
    final: bool = False
    """Whether the last response ends the agent's run."""
    answer: Any = None
    """The model's final answer, if it gave it by `set_model_response`."""

    @field_serializer("event")
    def _event(self, event: Event) -> dict[str, Any]:
        return _short(event)

    @field_serializer("interim")
    def _sorted(self, names: set[str]) -> list[str]:
        return sorted(names)


class LlmPosition(StackPosition):
    """The body of an LlmAgent."""

    unsettled: set[str] = Field(default_factory=set[str])
    """Long-running calls with an interim result: the model may speak, but its run cannot end."""
    final: bool = False
    """Whether the run has ended but for `unsettled`."""
    turn: TurnPosition | None = None
    """The calls that are not answered yet."""

    @field_serializer("unsettled")
    def _sorted(self, names: set[str]) -> list[str]:
        return sorted(names)


def _short(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json", exclude_none=True)
