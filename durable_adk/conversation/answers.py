"""The answers that pending calls accept.

An answer makes tools run (TRAP-28), so it is checked against the history; a client's claims about a
call are not trusted. A message is accepted or rejected as a whole, never in part.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast
from urllib.parse import parse_qs, urlsplit

from google.genai import types
from pydantic import ValidationError

from durable_adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.auth.redaction import without_secrets
from durable_adk.conversation.nodes.answers import RESULT, read_answer
from durable_adk.conversation.pending_calls import (
    CallStatus,
    PendingCall,
    TrackedCall,
    blocked_by,
    track_calls,
)
from durable_adk.errors import AlreadyAnsweredError, InvalidRequestError, StateValueError
from durable_adk.events.event import Event
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.json_values import check_json, to_json_value
from durable_adk.sessions.records import Status


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An accepted answer."""

    call: PendingCall
    response: types.FunctionResponse
    """The stored form: normalized, and without secrets (TOL-55)."""
    credential: AuthConfig | None = field(default=None, repr=False)
    """For a credential request: the requested configuration with the user's credential. It holds
    secrets: save it in the credential service and pass it nowhere else."""
    update: bool = False
    """Whether it updates an answer whose invocation has ended, and so starts another (TOL-41)."""

    @property
    def confirmation(self) -> ToolConfirmation | None:
        """The decision, if the call is a confirmation request."""
        if self.call.kind != "confirmation":
            return None
        return ToolConfirmation.read(self.response.response)


def response_message(responses: Iterable[tuple[PendingCall, dict[str, Any]]]) -> types.Content:
    """Return the message that gives calls their responses."""
    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.call_id, name=call.name, response=response
            )
        )
        for call, response in responses
    ]
    return types.Content(role="user", parts=parts)


def answered_call_ids(message: types.Content) -> list[str]:
    """Return the sorted ids of the calls that a message answers; "" for a response without id."""
    parts = message.parts or []
    return sorted(part.function_response.id or "" for part in parts if part.function_response)


def answered_invocation_ids(
    events: Iterable[Event], message: types.Content, *, invocation_id: str | None = None
) -> set[str]:
    """Return the ids of the invocations whose calls a message answers; see `track_calls`.

    `check_answers` needs the status of each.
    """
    history = track_calls(events, invocation_id=invocation_id)
    found = (history.get(response.id or "") for response in _responses(message))
    return {item.call.invocation_id for item in found if item}


def check_answers(
    events: Iterable[Event],
    message: types.Content,
    *,
    statuses: Mapping[str, Status] | None = None,
    invocation_id: str | None = None,
) -> list[Answer]:
    """Return the answers in a message, in its order; [] if it has no function responses.

    Args:
        events: The session's committed events, in order.
        message: The user's message.
        statuses: Status of each invocation that `answered_invocation_ids` names. A missing one
            counts as open, unless its events say that it failed or was cancelled.
        invocation_id: See `track_calls`.

    Raises:
        AlreadyAnsweredError: A call has an answer, or its deadline has passed.
        InvalidRequestError: The message answers a call that was never made or is no longer pending,
            uses another name or a malformed response, contains other parts, or answers calls of
            several invocations (TRAP-28, TOL-64, RUN-21).
    """
    responses = _responses(message)
    history = track_calls(events, invocation_id=invocation_id)
    answers = [_answer(response, history, statuses or {}) for response in responses]
    ids = [answer.call.call_id for answer in answers]
    for call_id in ids:
        if ids.count(call_id) > 1:
            _refuse(f"The call {call_id!r} is answered twice in one message; answer it once.")
    invocations = {answer.call.invocation_id for answer in answers}
    if len(invocations) > 1:
        _refuse(
            f"The message answers calls of several invocations ({', '.join(sorted(invocations))})"
            "; send one message for each."
        )
    return answers


def answer_message(answers: Sequence[Answer]) -> types.Content:
    """Return the message to store and send on: the answers, without secrets."""
    parts = [types.Part(function_response=answer.response) for answer in answers]
    return types.Content(role="user", parts=parts)


def _refuse(reason: str) -> NoReturn:
    # No cause: its text may quote a credential.
    raise InvalidRequestError(reason) from None


def _responses(message: types.Content) -> list[types.FunctionResponse]:
    parts = message.parts or []
    responses = [part.function_response for part in parts if part.function_response]
    if responses and any(set(part.model_dump(exclude_none=True)) != _ALONE for part in parts):
        _refuse(
            "The message mixes answers to calls with other parts; send the answers in a message "
            "of their own (RUN-21)."
        )
    return responses


_ALONE = {"function_response"}
_API_KEY = AuthCredentialTypes.API_KEY


def _answer(
    response: types.FunctionResponse,
    history: dict[str, TrackedCall],
    statuses: Mapping[str, Status],
) -> Answer:
    item = _find(response, history)
    update = _check_status(item, history, statuses.get(item.call.invocation_id))
    data = _json_object(response.response, item.call)
    match item.call.kind:
        case "confirmation":
            return _confirmation(item, data)
        case "credential":
            return _credential(item, data)
        case "long_running" if item.call.name == REQUEST_INPUT:
            schema = item.call.args.get("response_schema")
            value = read_answer(data, schema, f"The answer to call {item.call.call_id!r}")
            return _answered(item, {RESULT: value}, update=update)
        case "long_running":
            return Answer(call=item.call, response=response, update=update)


def _find(response: types.FunctionResponse, history: dict[str, TrackedCall]) -> TrackedCall:
    if not response.id:
        _refuse("A function response has no id; set it to the id of the call that it answers.")
    item = history.get(response.id)
    if item is None or not item.is_valid:
        open_ids = [key for key, other in history.items() if other.status is CallStatus.OPEN]
        pending = ", ".join(open_ids) or "none"
        _refuse(f"This session has no pending call {response.id!r}; pending calls: {pending}.")
    if item.call.name not in (response.name, REQUEST_INPUT):  # any name answers it (GR-132)
        _refuse(
            f"The answer to call {response.id!r} has the name {response.name!r}; it must have the "
            f"call's name, {item.call.name!r}."
        )
    return item


def _check_status(
    item: TrackedCall, history: dict[str, TrackedCall], status: Status | None
) -> bool:
    """Return whether the answer is a late update; raise if the call is not pending."""
    call, completed = item.call, status is Status.COMPLETED
    lost = status is not None and status.closed and not completed
    # A node has ended with its graph, and nothing else knows what its call is about.
    update = call.kind == "long_running" and completed and not call.node_path
    if item.status is CallStatus.DECIDED and not update:
        raise AlreadyAnsweredError(
            f"The answer to call {call.call_id!r} is too late: its deadline has passed."
        )
    if item.status is CallStatus.ANSWERED and not update:
        raise AlreadyAnsweredError(
            f"The call {call.call_id!r} is already answered; the first answer counts."
        )
    if lost or item.status is CallStatus.CLOSED:
        _refuse(
            f"The invocation {call.invocation_id} ended before its call {call.call_id!r} was "
            "answered; send a new message instead."
        )
    if request := blocked_by(call, history):
        _refuse(
            f"Answer {request.name} (call {request.call_id!r}) first: {call.name} has not started."
        )
    if completed and not update:
        _refuse(
            f"The invocation {call.invocation_id} is over, or was copied from google-adk: nothing "
            f"waits for an answer to its call {call.call_id!r}. Send a message instead, so that "
            "the tool or the node asks again."
        )
    return update


def _json_object(data: Any, call: PendingCall) -> dict[str, Any]:
    """Return the response as JSON that every store accepts; ADK's form as JSON text is parsed."""
    what = f"the response to call {call.call_id!r}"
    if not isinstance(data, dict):
        _refuse(f"There is no response in {what}; pass a JSON object.")
    if call.kind != "long_running":  # ADK's pages answer with model_dump(), which leaves enums
        data = to_json_value(data)
    try:
        check_json(data, what)
        found = cast("dict[str, Any]", data)
        if call.kind != "long_running" and set(found) == {"response"}:
            found = _parsed(found["response"], what)
            check_json(found, what)
    except StateValueError as error:
        _refuse(error.message)
    return found


def _parsed(text: Any, what: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        _refuse(f"`response` in {what} must be the text of a JSON object.")
    return cast("dict[str, Any]", data)


def _confirmation(item: TrackedCall, data: dict[str, Any]) -> Answer:
    shape = "pass {'confirmed': true or false, 'payload': any JSON value, optional}"
    if "confirmed" not in data:
        _refuse(f"The answer to {item.call.name} has no `confirmed`: {shape}.")
    try:
        decision = ToolConfirmation.model_validate(data, extra="forbid")
    except ValidationError as error:
        _refuse(f"The answer to {item.call.name} is malformed ({_problems(error)}): {shape}.")
    return _answered(item, decision.model_dump(mode="json", exclude_none=True, exclude_unset=True))


def _credential(item: TrackedCall, data: dict[str, Any]) -> Answer:
    what = f"The answer to {item.call.name}"
    try:
        requested = AuthConfig.model_validate(item.call.args.get("authConfig"))
        given = _auth_config(requested, data[RESULT] if set(data) == {RESULT} else data)
    except ValidationError as error:
        _refuse(
            f"{what} is no AuthConfig ({_problems(error)}); return the requested one, or an "
            "AuthCredential with its authType."
        )
    if given.exchanged_auth_credential is None:
        _refuse(f"{what} has no exchangedAuthCredential; put the credential there.")
    if given.key != requested.key:
        # Stored under the requested key, it would replace another credential.
        _refuse(f"{what} is for credential key {given.key!r}, not {requested.key!r}.")
    _check_state(requested, given, what)
    # Only the credential is taken from the client; the rest stays as it was requested.
    whole = requested.model_copy(
        update={"exchanged_auth_credential": given.exchanged_auth_credential}
    )
    stored = without_secrets(whole).model_dump(mode="json", by_alias=True, exclude_none=True)
    return _answered(item, stored, credential=whole)


def _auth_config(requested: AuthConfig, value: Any) -> AuthConfig:
    """Return the configuration in an answer; as in ADK, a credential or an API key is enough.

    Raises:
        ValidationError: It is none of these.
    """
    raw = requested.raw_auth_credential
    wants_key = raw is not None and raw.auth_type is _API_KEY
    if wants_key and isinstance(value, str | int | float) and not isinstance(value, bool):
        value = {"authType": _API_KEY, "apiKey": str(value)}
    try:
        given = AuthCredential.model_validate(value)
    except ValidationError:
        return AuthConfig.model_validate(value)
    return requested.model_copy(update={"exchanged_auth_credential": given})


def _check_state(requested: AuthConfig, given: AuthConfig, what: str) -> None:
    """Reject a consent that was given for another request, by OAuth2's `state`."""
    oauth2 = requested.exchanged_auth_credential and requested.exchanged_auth_credential.oauth2
    answer = given.exchanged_auth_credential and given.exchanged_auth_credential.oauth2
    if not oauth2 or not oauth2.state or not answer:
        return
    states = {answer.state or oauth2.state}
    if answer.auth_response_uri:
        states |= set(_query(answer.auth_response_uri).get("state", [""]))
    if states != {oauth2.state}:
        _refuse(f"{what} belongs to another request: its OAuth2 state differs.")


def _query(uri: str) -> dict[str, list[str]]:
    try:
        return parse_qs(urlsplit(uri).query)
    except ValueError:
        return {}


def _answered(item: TrackedCall, data: dict[str, Any], **more: Any) -> Answer:
    response = types.FunctionResponse(id=item.call.call_id, name=item.call.name, response=data)
    return Answer(call=item.call, response=response, **more)


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'it'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)
    )
