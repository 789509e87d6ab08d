"""The calls of a session that wait for an answer from outside.

Everything here is a function of committed events, so the loop, a client and a replay see the same
calls waiting, and a crash changes nothing (design D9).
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal

from google.genai import types
from pydantic import ConfigDict, Field

from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.auth.redaction import without_secrets
from durable_adk.conversation.history import not_rewound
from durable_adk.conversation.response import ID_PREFIX
from durable_adk.events.event import Event
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.json_model import JsonModel
from durable_adk.json_values import canonical
from durable_adk.tools._confirmation import Asker, runtime_hint

REQUEST_CONFIRMATION = "adk_request_confirmation"
REQUEST_CREDENTIAL = "adk_request_credential"
ASKED_BY = "adk_asked_by"
"""Key of a response's `custom_metadata`: for each call to be confirmed, its id and who asks."""
SETTLED = "adk_settled"
"""Key of an event's `custom_metadata`: true, or the ids of those of its responses that are final.

An agent's response to a call that waits is otherwise a preliminary one.
"""

_USER = "user"
_NAMESPACE = uuid.UUID("0b8f4f0e-5a0c-5d57-8f1e-2d7c9a6b4e10")


def confirmation_request(calls: Event, responses: Event, *, event_id: str) -> Event | None:
    """The event that asks the client to approve calls of a turn (semantics TOL-61).

    Args:
        calls: The turn's calls, as committed.
        responses: The turn's responses, whose actions name the calls to be confirmed.
        event_id: The request's own id; the ids of its calls are derived from it (D5).

    Returns:
        One event with one long-running call for each, in the order of the calls; None: no call of
        the turn is to be confirmed.
    """
    wanted = responses.actions.requested_tool_confirmations
    requests = {
        call.id: {
            "originalFunctionCall": {"id": call.id, "name": call.name, "args": call.args or {}},
            "toolConfirmation": _question(wanted[call.id]),
        }
        for call in calls.get_function_calls()
        if call.id and call.id in wanted
    }
    return _request(REQUEST_CONFIRMATION, requests, responses, event_id=event_id, role="model")


def credential_request(calls: Event, responses: Event, *, event_id: str) -> Event | None:
    """The event that asks the client for credentials (semantics TOL-50).

    As `confirmation_request`; the configurations that leave here hold no secrets (TOL-55).
    """
    wanted = responses.actions.requested_auth_configs
    requests = {
        call.id: {
            "functionCallId": call.id,
            "authConfig": _as_json(without_secrets(AuthConfig.model_validate(wanted[call.id]))),
        }
        for call in calls.get_function_calls()
        if call.id and call.id in wanted
    }
    return _request(REQUEST_CREDENTIAL, requests, responses, event_id=event_id, role=_USER)


def _question(asked: Any) -> dict[str, Any]:
    return _as_json(ToolConfirmation.read(asked).model_copy(update={"confirmed": False}))


def _as_json(value: JsonModel) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _request(
    name: str, requests: dict[str, dict[str, Any]], responses: Event, *, event_id: str, role: str
) -> Event | None:
    calls = [
        types.FunctionCall(
            id=f"{ID_PREFIX}{uuid.uuid5(_NAMESPACE, f'{event_id}/{call_id}')}", name=name, args=args
        )
        for call_id, args in requests.items()
    ]
    if not calls:
        return None
    return Event(
        id=event_id,
        invocation_id=responses.invocation_id,
        author=responses.author,
        branch=responses.branch,
        content=types.Content(role=role, parts=[types.Part(function_call=call) for call in calls]),
        long_running_tool_ids={call.id for call in calls if call.id},
    )


def answer_to(events: Iterable[Event], request_id: str | None) -> types.FunctionResponse | None:
    """The response to a request, by the user or by its deadline; None: there is none yet."""
    if request_id is None:
        return None
    responses = (response for event in events for response in event.get_function_responses())
    return next((response for response in responses if response.id == request_id), None)


def decision(given: types.FunctionResponse | None) -> ToolConfirmation | None:
    """What a response to a confirmation request decides; None: it is no such response."""
    if given is None or given.name != REQUEST_CONFIRMATION:
        return None
    return ToolConfirmation.read(given.response)


def asked_by(call_id: str, asker: Asker) -> dict[str, Any]:
    """The metadata of a response that asks for a call's confirmation; see `ASKED_BY`."""
    return {ASKED_BY: [{"id": call_id, "by": asker}]}


def is_denied(
    events: Sequence[Event], request_id: str | None, call_id: str, *, can_read: bool
) -> bool:
    """Whether the answer is a no that keeps the tool from running (I16).

    Told by what is committed and not by the tool, which may not ask any more: a deploy changes the
    code while a call waits. Only a tool whose own code asked reads the decision itself.

    Args:
        events: The session's.
        request_id: The request whose answer the call has waited for, if it has.
        call_id: The call.
        can_read: Whether the tool, as it is now, can read the decision.
    """
    given = decision(answer_to(events, request_id))
    if given is None or given.confirmed:
        return False
    return not can_read or not _asked_itself(events, request_id, call_id)


def _asked_itself(events: Sequence[Event], request_id: str | None, call_id: str) -> bool:
    """Whether it was the tool's own code that asked last; where no record says so, the hint."""
    for event in reversed(events):
        # Nowhere else: metadata that a client has given to its run is on all other events.
        if call_id in event.actions.requested_tool_confirmations:
            notes: Any = (event.custom_metadata or {}).get(ASKED_BY) or []
            if asker := next((one["by"] for one in notes if one["id"] == call_id), None):
                return asker == "tool"
            break
    calls = (call for event in events for call in event.get_function_calls())
    request = next((call for call in calls if call.id == request_id), None)
    match request and request.args:
        case {"originalFunctionCall": {"name": str(name)}, "toolConfirmation": {"hint": hint}}:
            return hint != runtime_hint(name)
        case _:
            return True


class PendingCall(JsonModel):
    """A call that waits for an answer: a message with a `FunctionResponse` of its id and name."""

    model_config = ConfigDict(frozen=True)

    call_id: str
    name: str
    kind: Literal["long_running", "confirmation", "credential"]
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Of the call itself; a confirmation's hold what is to be approved."""
    original_call_id: str
    """The tool call it is about; of a long-running call its own id."""
    original_name: str
    author: str
    """The agent that asked."""
    branch: str | None = None
    event_id: str
    invocation_id: str
    asked_at: float
    """The event's timestamp, in seconds since the epoch."""


class Standing(Enum):
    """How a call that may be answered from outside stands."""

    OPEN = auto()
    ANSWERED = auto()
    """By the user."""
    SETTLED = auto()
    """By the loop in the user's place, e.g. when its deadline had passed."""
    SEALED = auto()
    """Its invocation was cancelled or failed before there was an answer."""


@dataclass
class Tracked:
    """A call that may be answered from outside, as the history knows it."""

    call: PendingCall
    original: types.FunctionCall | None
    """The tool call that a request is about; None: the history holds no such call."""
    standing: Standing = Standing.OPEN

    @property
    def genuine(self) -> bool:
        """Whether the request is about a call that was made, with its arguments (TOL-64)."""
        if self.call.kind != "confirmation":
            return self.original is not None
        shown = self.call.args["originalFunctionCall"]
        return (
            self.original is not None
            and self.original.name == shown.get("name")
            and canonical(self.original.args or {}) == canonical(shown.get("args") or {})
        )


def pending_calls(events: Iterable[Event]) -> list[PendingCall]:
    """Every call of a session that waits for an answer, in the order of asking.

    A long-running call whose confirmation or credential is still waited for has not begun, so only
    the request is waiting. A request about a call that was never made waits for nobody.

    Args:
        events: The session's committed events, in order.
    """
    history = track(events)
    return [
        item.call
        for item in history.values()
        if item.standing is Standing.OPEN and item.genuine and not blocked_by(item.call, history)
    ]


def blocked_by(call: PendingCall, history: dict[str, Tracked]) -> PendingCall | None:
    """The open request that a long-running call waits for itself."""
    for item in history.values():
        about = item.call.original_call_id == call.call_id != item.call.call_id
        if about and item.genuine and item.standing is Standing.OPEN:
            return item.call
    return None


def track(events: Iterable[Event]) -> dict[str, Tracked]:
    """All calls that were ever to be answered from outside, by id; of a recurring id the latest.

    Those that a rewind has taken back were never made, and their answers never given (REW-1).
    """
    made: dict[str, types.FunctionCall] = {}
    history: dict[str, Tracked] = {}
    for event in not_rewound(list(events)):
        if event.partial:
            continue
        # What a client wrote calls nothing, whatever it looks like (RES-8).
        for call in event.get_function_calls() if event.author != _USER else ():
            history.pop(call.id or "", None)
            if tracked := _tracked(call, event, made):
                history[tracked.call.call_id] = tracked
            made[call.id or ""] = call
        for response in event.get_function_responses():
            item = history.get(response.id or "")
            if item and item.call.name == response.name:
                item.standing = _standing(item, event)
        if event.id == f"{event.invocation_id}.end":
            _seal(history, event.invocation_id)
    return history


def _tracked(
    call: types.FunctionCall, event: Event, made: dict[str, types.FunctionCall]
) -> Tracked | None:
    if not call.id or call.id not in (event.long_running_tool_ids or ()):
        return None
    args = call.args or {}
    match call.name, args:
        case name, {"originalFunctionCall": {"id": str(about)}} if name == REQUEST_CONFIRMATION:
            kind, original = "confirmation", made.get(about)
        case name, {"functionCallId": str(about)} if name == REQUEST_CREDENTIAL:
            kind, original = "credential", made.get(about)
        case _:
            kind, about, original = "long_running", call.id, call
    pending = PendingCall(
        call_id=call.id,
        name=call.name or "",
        kind=kind,
        args=args,
        original_call_id=about,
        original_name=(original.name if original else None) or "",
        author=event.author,
        branch=event.branch,
        event_id=event.id,
        invocation_id=event.invocation_id,
        asked_at=event.timestamp,
    )
    return Tracked(pending, original)


def _standing(item: Tracked, event: Event) -> Standing:
    """How a call stands after a response to it."""
    if item.standing is Standing.SEALED:
        return Standing.SEALED
    if event.author == _USER:
        return Standing.ANSWERED
    if item.standing is not Standing.OPEN:
        return item.standing
    if event.id.endswith(".sealed"):
        return Standing.SEALED
    settled: Any = (event.custom_metadata or {}).get(SETTLED)
    final = settled is True or (isinstance(settled, list) and item.call.call_id in settled)
    return Standing.SETTLED if final else Standing.OPEN


def _seal(history: dict[str, Tracked], invocation_id: str) -> None:
    """An error event ended the invocation; calls with a preliminary response get no other seal."""
    for item in history.values():
        if item.call.invocation_id == invocation_id and item.standing is Standing.OPEN:
            item.standing = Standing.SEALED
