"""The calls of a session that wait for an answer of the user.

All of this derives from committed events. The loop, a client and a replay therefore see the same
pending calls, and a crash changes nothing (D9).
"""

from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal

from google.genai import types
from pydantic import ConfigDict, Field

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.conversation.history import USER, not_rewound
from durable_adk.conversation.nodes.events import is_of_call
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.json_values import JsonModel, canonical
from durable_adk.wire.manifest import OnDeadline, Wait

FINAL_RESPONSES = "adk_settled"
"""Key of an event's `custom_metadata`: true, or the ids of its responses that are final.

Any other response that an agent gives to a pending call is a preliminary one.
"""
DEADLINES = "adk_deadlines"
"""Key of `custom_metadata`: seconds from the event to each call's deadline, by call id."""
ON_DEADLINE = "adk_on_deadline"
"""Key of `custom_metadata`: what happens at each call's deadline, by call id."""

_OF_REMOTE_AGENT = "a2a:response"
"""Key of `custom_metadata` with which google-adk's `RemoteA2aAgent` marks a remote agent's
messages.

Such an agent requests confirmation of a call of its own. It receives the answer, and no tool runs
here.
"""


class PendingCall(JsonModel):
    """A call that waits for an answer: a message with a `FunctionResponse` of its id and name."""

    model_config = ConfigDict(frozen=True)

    call_id: str
    name: str
    kind: Literal["long_running", "confirmation", "credential"]
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Arguments of the call; those of a confirmation contain the call to approve."""
    original_call_id: str
    """The tool call that a request refers to; for a long-running call its own id."""
    original_name: str
    author: str
    """The agent that made the call."""
    branch: str | None = None
    node_path: str = Field(default="", exclude=True)
    """The path of the node of a graph that made the call; empty for any other caller."""
    event_id: str
    invocation_id: str
    requested_at: float
    """The event's timestamp, in seconds since the epoch."""
    deadline: float | None = None
    """When the loop decides instead of the user, in seconds since the epoch; None: never."""
    on_deadline: OnDeadline | None = None
    """The decision at the deadline: ``approve`` or ``reject`` for a confirmation, ``tell`` (the
    model) for other calls, ``fail`` for any. None: there is no deadline, or it was recorded without
    a policy."""


class CallStatus(Enum):
    """The status of a call that the user may answer."""

    OPEN = auto()
    ANSWERED = auto()
    """The user answered."""
    DECIDED = auto()
    """The loop answered instead of the user, for example at the deadline."""
    CLOSED = auto()
    """The invocation was cancelled or failed first."""


@dataclass
class TrackedCall:
    """A call that the user may answer, and its status."""

    call: PendingCall
    original: types.FunctionCall | None
    """The tool call that a request refers to; None if the history has no such call."""
    status: CallStatus = CallStatus.OPEN

    @property
    def is_valid(self) -> bool:
        """Whether the request refers to a call that was made with these arguments (TOL-64)."""
        if self.call.kind != "confirmation":
            return self.original is not None
        shown = self.call.args["originalFunctionCall"]
        return (
            self.original is not None
            and self.original.name == shown.get("name")
            and canonical(self.original.args or {}) == canonical(shown.get("args") or {})
        )


def pending_calls(events: Iterable[Event]) -> list[PendingCall]:
    """Return the pending calls of a session, in the order of the calls.

    A long-running call that still needs a confirmation or a credential has not started, so only the
    request is pending. A request that refers to no call is not pending.

    Args:
        events: The session's committed events, in order.
    """
    latest, older = _track(events)
    history = _answerable(latest, older)
    found = [*older, *latest.values()]
    return [
        item.call
        for item in found
        if item.status is CallStatus.OPEN and item.is_valid and not blocked_by(item.call, history)
    ]


def blocked_by(call: PendingCall, history: dict[str, TrackedCall]) -> PendingCall | None:
    """Return the open request that must be answered before a long-running call can start."""
    for item in history.values():
        about = item.call.original_call_id == call.call_id != item.call.call_id
        if about and item.is_valid and item.status is CallStatus.OPEN:
            return item.call
    return None


def track_calls(
    events: Iterable[Event], *, invocation_id: str | None = None
) -> dict[str, TrackedCall]:
    """Return every call that the user could ever answer, by id.

    Of a repeated id it is the call of the named invocation, if there is one; else the latest, or if
    that one was closed without an answer, the latest of another invocation that is open (B-19).
    Calls and answers that a rewind removed do not count (REW-1).

    Args:
        events: The session's committed events, in order.
        invocation_id: The invocation whose calls are meant; None: the sender did not say.
    """
    return _answerable(*_track(events), invocation_id)


def _answerable(
    latest: dict[str, TrackedCall], older: list[TrackedCall], invocation_id: str | None = None
) -> dict[str, TrackedCall]:
    history = dict(latest)
    for item in older:
        newest = latest[item.call.call_id]
        # An answer that is sent again must not be taken for one to an earlier question.
        if item.status is CallStatus.OPEN and newest.status is CallStatus.CLOSED:
            history[item.call.call_id] = item
    named = [*older, *latest.values()] if invocation_id else []
    of_it = (item for item in named if item.call.invocation_id == invocation_id)
    return history | {item.call.call_id: item for item in of_it}


def _track(events: Iterable[Event]) -> tuple[dict[str, TrackedCall], list[TrackedCall]]:
    """Return the latest call of each id, and earlier ones that other invocations left open."""
    made: dict[str, types.FunctionCall] = {}
    history: dict[str, TrackedCall] = {}
    older: list[TrackedCall] = []
    roots = set[str]()
    """Root agents, by the paths of google-adk."""
    for event in not_rewound(list(events)):
        if event.partial:
            continue
        if event.parts and event.node_info.path.partition("@")[0] == event.author:
            roots.add(event.node_info.path)
        # A function call in a message of the user is only content (RES-8).
        for call in event.get_function_calls() if event.author != USER else ():
            before = history.pop(call.id or "", None)
            if tracked := _tracked(call, event, made, roots):
                history[tracked.call.call_id] = tracked
                if before is not None and _stays_open(before, tracked):
                    older.append(before)
            made[call.id or ""] = call
        for response in event.get_function_responses():
            item = _answered_by(event, response.id or "", history, older)
            if item and item.call.name == response.name:
                item.status = _status_after(item, event)
                _restart_deadline(history.get(item.call.original_call_id), item.call)
        if event.id == f"{event.invocation_id}.end":
            _close([*older, *history.values()], event.invocation_id)
    return history, older


def _has_constant_id(call: PendingCall) -> bool:
    """Return whether the call is a node's, whose id is the same in each invocation."""
    asks = call.name == REQUEST_CREDENTIAL and call.original_call_id == call.call_id
    return asks or call.name == REQUEST_INPUT


def _stays_open(before: TrackedCall, now: TrackedCall) -> bool:
    """Return whether another invocation's question waits although its id is used again."""
    other = before.call.invocation_id != now.call.invocation_id
    return _has_constant_id(now.call) and other and before.status is CallStatus.OPEN


def _answered_by(
    event: Event, call_id: str, history: Mapping[str, TrackedCall], older: Iterable[TrackedCall]
) -> TrackedCall | None:
    """Return the call that a response of an event is to; a question's is of its invocation."""
    for item in older:
        of_event = item.call.invocation_id == event.invocation_id
        if of_event and item.call.call_id == call_id:
            return item
    item = history.get(call_id)
    if item is not None and _has_constant_id(item.call):
        return item if item.call.invocation_id == event.invocation_id else None
    return item


def tracking_copy(event: Event) -> Event:
    """Return an event with only the parts that `track_calls` and comparisons of answers read.

    Messages of the user keep their texts.
    """
    is_users, parts = event.author == USER, list[types.Part]()
    for part in (event.content and event.content.parts) or ():
        if part.function_call or (is_users and (part.function_response or part.text)):
            parts.append(part)
        elif response := part.function_response:
            named = types.FunctionResponse(id=response.id, name=response.name)
            parts.append(types.Part(function_response=named))
    rewind = event.actions.rewind_before_invocation_id
    kept = {
        "content": event.content and event.content.model_copy(update={"parts": parts}),
        "actions": EventActions(rewind_before_invocation_id=rewind),
    }
    return event.model_copy(update=kept)


def _tracked(
    call: types.FunctionCall,
    event: Event,
    made: dict[str, types.FunctionCall],
    roots: AbstractSet[str],
) -> TrackedCall | None:
    if not call.id or call.id not in (event.long_running_tool_ids or ()):
        return None
    args = call.args or {}
    match call.name, args:
        case name, {"originalFunctionCall": {"id": str(about)}} if name == REQUEST_CONFIRMATION:
            kind, original = "confirmation", made.get(about)
            if original is None and (event.custom_metadata or {}).get(_OF_REMOTE_AGENT):
                kind, about, original = "long_running", call.id, call
        case name, {"functionCallId": str(about)} if name == REQUEST_CREDENTIAL:
            kind, original = "credential", made.get(about)
            if about == call.id:  # of a node, which no model has called
                original = types.FunctionCall(id=about, name=event.node_info.name)
        case _:
            kind, about, original = "long_running", call.id, call
    deadline, on_deadline = _deadline(event, call.id, kind)
    pending = PendingCall(
        call_id=call.id,
        name=call.name or "",
        kind=kind,
        args=args,
        original_call_id=about,
        original_name=(original.name if original else None) or "",
        author=event.author,
        branch=event.branch,
        node_path=_node_path(event, roots),
        event_id=event.id,
        invocation_id=event.invocation_id,
        requested_at=event.timestamp,
        deadline=deadline,
        on_deadline=on_deadline,
    )
    return TrackedCall(pending, original)


def _node_path(event: Event, roots: AbstractSet[str]) -> str:
    """Return the path of the node that made an event; empty if an agent outside of graphs did.

    google-adk gives agents paths, too, also those to which a root agent transfers.
    """
    path = event.node_info.path
    transferred = path.partition("/")[0] in roots and not is_of_call(path)
    return path if "/" in path and not transferred else ""


def with_deadlines(event: Event, waits: Mapping[str, Wait]) -> None:
    """Record on an event, before its commit, how long each of its calls waits for an answer.

    Args:
        event: The event.
        waits: How long each call waits, by call id.
    """
    limited = {call_id: wait for call_id, wait in waits.items() if wait.deadline is not None}
    if limited:
        limits = {call_id: wait.deadline for call_id, wait in limited.items()}
        decided = {call_id: wait.on_deadline for call_id, wait in limited.items()}
        noted = {DEADLINES: limits, ON_DEADLINE: decided}
        event.custom_metadata = {**(event.custom_metadata or {}), **noted}


def _deadline(
    event: Event, call_id: str, kind: str
) -> tuple[float, OnDeadline | None] | tuple[None, None]:
    """Return when a call is decided without an answer, and how; None: never."""
    noted = event.custom_metadata or {}
    limits: dict[str, float] = noted.get(DEADLINES) or {}
    if call_id not in limits:
        return None, None
    policies: dict[str, OnDeadline] = noted.get(ON_DEADLINE) or {}
    # User code may record deadlines without the policies.
    return event.timestamp + limits[call_id], _decision(policies.get(call_id), kind)


def _decision(policy: OnDeadline | None, kind: str) -> OnDeadline | None:
    """Return the decision that a tool's policy means for a kind of call."""
    if policy is None or policy == "fail":
        return policy
    if kind != "confirmation":
        return "tell"
    return "approve" if policy == "approve" else "reject"


def _restart_deadline(original: TrackedCall | None, request: PendingCall) -> None:
    """Clear the deadline of a call whose request was answered: it starts anew from there."""
    if original and original.call.call_id != request.call_id:
        original.call = original.call.model_copy(update={"deadline": None, "on_deadline": None})


def _status_after(item: TrackedCall, event: Event) -> CallStatus:
    """Return the status of a call after a response to it."""
    if item.status is CallStatus.CLOSED:
        return CallStatus.CLOSED
    if event.author == USER:
        return CallStatus.ANSWERED
    if item.status is not CallStatus.OPEN:
        return item.status
    if is_sealed(event):
        return CallStatus.CLOSED
    return CallStatus.DECIDED if is_final(event, item.call.call_id) else CallStatus.OPEN


def is_sealed(event: Event) -> bool:
    """Return whether an event has the closing responses of an ended invocation."""
    return event.id.endswith(".sealed")


def is_final(event: Event, call_id: str) -> bool:
    """Return whether an agent's response to a long-running call is final, not preliminary."""
    final: Any = (event.custom_metadata or {}).get(FINAL_RESPONSES)
    return final is True or (isinstance(final, list) and call_id in final)


def _close(calls: Iterable[TrackedCall], invocation_id: str) -> None:
    """Close the open calls of an invocation that ended with an error event.

    Calls with a preliminary response get no closing response of their own.
    """
    for item in calls:
        if item.call.invocation_id == invocation_id and item.status is CallStatus.OPEN:
            item.status = CallStatus.CLOSED
