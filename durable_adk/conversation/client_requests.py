"""Requests to the client: function calls that ask the user for a confirmation or a credential.

They look like calls of the model but are made by the runtime. `answers` checks the answers;
`pending_calls` lists the open requests.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from google.genai import types

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.auth.redaction import without_secrets
from durable_adk.conversation.call_ids import ID_PREFIX
from durable_adk.events.event import Event
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.events.tool_confirmation import ConfirmationRequester, ToolConfirmation
from durable_adk.json_values import JsonModel, canonical
from durable_adk.tools.require_confirmation import is_runtime_hint

REQUEST_CONFIRMATION = "adk_request_confirmation"
CONTROL_FUNCTIONS = frozenset({REQUEST_CREDENTIAL, REQUEST_CONFIRMATION})
"""Names of the calls that go to the client instead of a tool (FLW-20). No tool may have one."""
CONFIRMATION_REQUESTERS = "adk_asked_by"
"""Key of a response's `custom_metadata`: the id and requester of each call to confirm."""

_CONFIRMATION_SCHEMA = {
    "type": "object",
    "properties": {"confirmed": {"type": "boolean"}, "payload": {}},
    "required": ["confirmed"],
}
_NAMESPACE = uuid.UUID("0b8f4f0e-5a0c-5d57-8f1e-2d7c9a6b4e10")


def confirmation_request(calls: Event, responses: Event, *, event_id: str) -> Event | None:
    """Return the event that asks the client to approve calls of a turn (TOL-61).

    Args:
        calls: The turn's calls, as committed.
        responses: The turn's responses; their actions name the calls to confirm.
        event_id: Id of the returned event; the ids of its calls are derived from it (D5).

    Returns:
        An event with one long-running call per call to confirm, in the order of the calls; None if
        no call of the turn needs a confirmation.
    """
    wanted = responses.actions.requested_tool_confirmations
    requests = {
        call.id: {
            "originalFunctionCall": {"id": call.id, "name": call.name, "args": call.args or {}},
            "toolConfirmation": _as_json(wanted[call.id].model_copy(update={"confirmed": False})),
        }
        for call in calls.get_function_calls()
        if call.id and call.id in wanted
    }
    return _request(REQUEST_CONFIRMATION, requests, responses, event_id=event_id, role="model")


def credential_request(calls: Event, responses: Event, *, event_id: str) -> Event | None:
    """Return the event that asks the client for credentials (TOL-50).

    Arguments and result are those of `confirmation_request`. The configurations in the event hold
    no secrets (TOL-55).
    """
    wanted = responses.actions.requested_auth_configs
    requests = {
        call.id: {
            "functionCallId": call.id,
            "authConfig": _as_json(without_secrets(wanted[call.id])),
        }
        for call in calls.get_function_calls()
        if call.id and call.id in wanted
    }
    return _request(REQUEST_CREDENTIAL, requests, responses, event_id=event_id, role="user")


def is_request(event: Event, call: types.FunctionCall) -> bool:
    """Return whether a call is the runtime's request to the client.

    A model may call a function by the same name. That is a call of an unknown tool.
    """
    return call.name in CONTROL_FUNCTIONS and call.id in (event.long_running_tool_ids or ())


def _as_json(value: JsonModel) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _request(
    name: str, requests: dict[str, dict[str, Any]], responses: Event, *, event_id: str, role: str
) -> Event | None:
    calls = [
        types.FunctionCall(
            id=f"{ID_PREFIX}{uuid.uuid5(_NAMESPACE, canonical([event_id, call_id]))}",
            name=name,
            args=args,
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


def shown_request(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return what a person has to see in order to answer a call, in plain JSON.

    Args:
        name: Name of the pending call.
        args: Its arguments.

    Returns:
        Those of these that apply: `kind` as in `PendingCall`, `tool` and its `arguments`, `hint`
        and `payload` of a request for confirmation, `authConfig` of one for a credential, and
        `responseSchema`: JSON schema of `InvocationAnswer.response`. The `hint` of a
        question, or of a node's request for a credential, is its message; a question's payload is
        its only argument.
    """
    match name, args:
        case name, {"originalFunctionCall": {"name": str(tool), **call}} if (
            name == REQUEST_CONFIRMATION
        ):
            asked: dict[str, Any] = args.get("toolConfirmation") or {}
            return {
                "kind": "confirmation",
                "tool": tool,
                "arguments": call.get("args") or {},
                **{key: asked[key] for key in ("hint", "payload") if asked.get(key)},
                "responseSchema": _CONFIRMATION_SCHEMA,
            }
        case name, {"authConfig": config} if name == REQUEST_CREDENTIAL:
            message = args.get("message")
            hint = {"hint": message} if message else {}
            return {"kind": "credential", "authConfig": config, **hint}
        case name, {"interruptId": str()} if name == REQUEST_INPUT:
            payload, message = args.get("payload"), args.get("message")
            return {
                "kind": "long_running",
                "tool": name,
                "arguments": {} if payload is None else {"payload": payload},
                **({"hint": message} if message else {}),
                "responseSchema": _answer_schema(args.get("response_schema")),
            }
        case _:
            schema = {"type": "object"}
            return {
                "kind": "long_running",
                "tool": name,
                "arguments": args,
                "responseSchema": schema,
            }


def _answer_schema(asked: dict[str, Any] | None) -> dict[str, Any]:
    """Return the JSON schema of the response to a question: its answer, or a dict with it."""
    if asked is None:
        return {"type": "object"}
    # A dict with nothing but a result is read as its result.
    if asked.get("type") == "object" and "result" not in asked.get("properties", ()):
        return asked
    moved = {key: asked[key] for key in ("$defs", "definitions") if key in asked}
    inner = {key: value for key, value in asked.items() if key not in moved}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **moved}


def response_to(events: Iterable[Event], request_id: str | None) -> types.FunctionResponse | None:
    """Return the response to a request, by the user or by its deadline, if there is one."""
    if request_id is None:
        return None
    responses = (response for event in events for response in event.get_function_responses())
    return next((response for response in responses if response.id == request_id), None)


def decision(response: types.FunctionResponse | None) -> ToolConfirmation | None:
    """Return the decision in a response to a confirmation request; None for other responses."""
    if response is None or response.name != REQUEST_CONFIRMATION:
        return None
    return ToolConfirmation.read(response.response)


def confirmation_metadata(call_id: str, requester: ConfirmationRequester) -> dict[str, Any]:
    """Return the metadata of a response that requests a confirmation of its call."""
    return {CONFIRMATION_REQUESTERS: [{"id": call_id, "by": requester}]}


def is_denied(
    events: Sequence[Event], request_id: str | None, call_id: str, *, can_read: bool
) -> bool:
    """Return whether the user rejected the call, so that its tool must not run (I16).

    Decided from the committed events, not by the tool, which a deploy may have changed while the
    call was pending. Only a tool whose own code requested the confirmation reads the decision.

    Args:
        events: The session's events.
        request_id: Id of the confirmation request for this call, if there was one.
        call_id: Id of the call.
        can_read: Whether the tool, in its current version, can read the decision.
    """
    given = decision(response_to(events, request_id))
    if given is None or given.confirmed:
        return False
    return not can_read or not _requested_by_tool(events, request_id, call_id)


def _requested_by_tool(events: Sequence[Event], request_id: str | None, call_id: str) -> bool:
    """Return whether the tool's own code made the last request.

    Events of google-adk do not record the requester; there the hint identifies it.
    """
    for event in reversed(events):
        # Read from this event only: clients may set metadata on the others.
        if call_id in event.actions.requested_tool_confirmations:
            notes: Any = (event.custom_metadata or {}).get(CONFIRMATION_REQUESTERS) or []
            if requester := next((note["by"] for note in notes if note["id"] == call_id), None):
                return requester == "tool"
            break
    match _args_of(events, request_id):
        case {"originalFunctionCall": {"name": str(name)}, "toolConfirmation": {"hint": hint}}:
            return not is_runtime_hint(hint, name)
        case _:
            return True


def is_as_shown(events: Sequence[Event], request_id: str | None, call: types.FunctionCall) -> bool:
    """Return whether a confirmation request, if it is one, showed these arguments (I16)."""
    match _args_of(events, request_id):
        case {"originalFunctionCall": {"name": name, **shown}}:
            args = canonical(shown.get("args") or {})
            return (name, args) == (call.name, canonical(call.args or {}))
        case _:
            return True


def _args_of(events: Sequence[Event], request_id: str | None) -> dict[str, Any] | None:
    if request_id is None:
        return None
    calls = (call for event in reversed(events) for call in event.get_function_calls())
    return next((call.args for call in calls if call.id == request_id), None)
