"""The answers that waiting calls accept.

Replying runs tools (TRAP-28), so an answer is checked against the history; what a client says of
a call is not believed. Nothing is accepted in part: the message stands or is refused as a whole.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast
from urllib.parse import parse_qs, urlsplit

from google.genai import types
from pydantic import ValidationError

from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.auth.redaction import without_secrets
from durable_adk.conversation.requests import PendingCall, Standing, Tracked, blocked_by, track
from durable_adk.errors import InvalidRequestError, StateValueError
from durable_adk.events.event import Event
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.json_values import check_json
from durable_adk.sessions.base_session_service import Status


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An accepted answer."""

    call: PendingCall
    response: types.FunctionResponse
    """What is stored: in one form, and without secrets (TOL-55)."""
    credential: AuthConfig | None = field(default=None, repr=False)
    """To a credential request: what was asked for, with what the user gave. It holds secrets: save
    it in the credential service, and hand it to nothing else."""
    update: bool = False
    """It follows the answer that the invocation ended with, so it starts another one (TOL-41)."""

    @property
    def confirmation(self) -> ToolConfirmation | None:
        """The decision, if the call asked for one."""
        if self.call.kind != "confirmation":
            return None
        return ToolConfirmation.read(self.response.response)


def answered_in(message: types.Content) -> list[str]:
    """Ids of the calls that a message answers, in order; "" for one that it does not name."""
    parts = message.parts or []
    return sorted(part.function_response.id or "" for part in parts if part.function_response)


def asked_in(events: Iterable[Event], message: types.Content) -> set[str]:
    """Ids of the invocations whose calls a message answers: those `check_answers` must know of."""
    history = track(events)
    found = (history.get(response.id or "") for response in _responses(message))
    return {item.call.invocation_id for item in found if item}


def check_answers(
    events: Iterable[Event],
    message: types.Content,
    *,
    statuses: Mapping[str, Status] | None = None,
) -> list[Answer]:
    """The answers a message gives, in its order; [] if it holds no function responses.

    Args:
        events: The session's committed events, in order.
        message: The user's message.
        statuses: How far the invocations are that `asked_in` names. One that is missing counts as
            open, unless its events say that it failed or was cancelled.

    Raises:
        InvalidRequestError: Something about the message is not as it must be. It answers a call
            that was never made or does not wait any more, under another name, in another form,
            beside text, or together with calls of another invocation (TRAP-28, TOL-64, RUN-21).
    """
    responses = _responses(message)
    history = track(events)
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
    """The message as it is stored and travels: its answers, without secrets."""
    parts = [types.Part(function_response=answer.response) for answer in answers]
    return types.Content(role="user", parts=parts)


def _refuse(reason: str) -> NoReturn:
    # Without a cause: it may know what stands in a credential.
    raise InvalidRequestError(reason) from None


def _responses(message: types.Content) -> list[types.FunctionResponse]:
    parts = message.parts or []
    responses = [part.function_response for part in parts if part.function_response]
    if responses and any(set(part.model_dump(exclude_none=True)) != _ALONE for part in parts):
        _refuse(
            "The message holds answers to calls beside something else; send the answers in a "
            "message of their own (RUN-21)."
        )
    return responses


_ALONE = {"function_response"}


def _answer(
    response: types.FunctionResponse,
    history: dict[str, Tracked],
    statuses: Mapping[str, Status],
) -> Answer:
    item = _find(response, history)
    update = _check_standing(item, history, statuses.get(item.call.invocation_id))
    data = _json_object(response.response, item.call)
    match item.call.kind:
        case "confirmation":
            return _confirmation(item, data)
        case "credential":
            return _credential(item, data)
        case "long_running":
            return Answer(call=item.call, response=response, update=update)


def _find(response: types.FunctionResponse, history: dict[str, Tracked]) -> Tracked:
    if not response.id:
        _refuse("A function response has no id; give it the id of the call that it answers.")
    item = history.get(response.id)
    if item is None or not item.genuine:
        open_ids = [key for key, other in history.items() if other.standing is Standing.OPEN]
        waiting = ", ".join(open_ids) or "none"
        _refuse(f"No call {response.id!r} waits for an answer in this session; waiting: {waiting}.")
    if response.name != item.call.name:
        _refuse(
            f"The answer to call {response.id!r} is named {response.name!r}; its name must be "
            f"{item.call.name!r}, as the call's."
        )
    return item


def _check_standing(item: Tracked, history: dict[str, Tracked], status: Status | None) -> bool:
    """Whether the answer is a later update; refused if the call does not wait for it."""
    call, completed = item.call, status is Status.COMPLETED
    lost = status is not None and status.closed and not completed
    if lost or item.standing is Standing.SEALED:
        _refuse(
            f"The invocation {call.invocation_id} ended before its call {call.call_id!r} was "
            "answered; send a new message instead."
        )
    if request := blocked_by(call, history):
        _refuse(
            f"Answer {request.name} (call {request.call_id!r}) first: {call.name} waits for it."
        )
    if call.kind == "long_running" and completed:
        return True
    if item.standing is Standing.SETTLED:
        _refuse(
            f"The answer to call {call.call_id!r} comes too late: it was not waited for longer."
        )
    if item.standing is Standing.ANSWERED:
        _refuse(f"The call {call.call_id!r} has been answered; the first answer counts.")
    if completed:
        _refuse(f"The invocation {call.invocation_id} is over; send a new message instead.")
    return False


def _json_object(data: Any, call: PendingCall) -> dict[str, Any]:
    """The response, checked to be JSON that every store keeps; ADK's text form of it is read."""
    what = f"the response to call {call.call_id!r}"
    if not isinstance(data, dict):
        _refuse(f"There is no response in {what}; pass a JSON object.")
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


def _confirmation(item: Tracked, data: dict[str, Any]) -> Answer:
    shape = "it must be {'confirmed': true or false, 'payload': any JSON, or missing}"
    if "confirmed" not in data:
        _refuse(f"The answer to {item.call.name} says neither yes nor no: {shape}.")
    try:
        decision = ToolConfirmation.model_validate(data)
    except ValidationError as error:
        _refuse(f"The answer to {item.call.name} is malformed ({_problems(error)}): {shape}.")
    return _answered(item, decision.model_dump(mode="json", exclude_none=True))


def _credential(item: Tracked, data: dict[str, Any]) -> Answer:
    what = f"The answer to {item.call.name}"
    try:
        asked = AuthConfig.model_validate(item.call.args.get("authConfig"))
        given = AuthConfig.model_validate(data)
    except ValidationError as error:
        _refuse(f"{what} is no AuthConfig ({_problems(error)}); send back the one that was asked.")
    if given.exchanged_auth_credential is None:
        _refuse(f"{what} has no exchangedAuthCredential; put the credential there.")
    if given.key != asked.key:
        # Stored under the key that was asked for, it would stand in for another credential.
        _refuse(f"{what} is for credential key {given.key!r}, asked for was {asked.key!r}.")
    _check_state(asked, given, what)
    # What was asked stays as it was: the client gives a credential and changes nothing else.
    whole = asked.model_copy(update={"exchanged_auth_credential": given.exchanged_auth_credential})
    stored = without_secrets(whole).model_dump(mode="json", by_alias=True, exclude_none=True)
    return _answered(item, stored, credential=whole)


def _check_state(asked: AuthConfig, given: AuthConfig, what: str) -> None:
    """A consent that was not given to our request is somebody else's (OAuth2's `state`)."""
    oauth2 = asked.exchanged_auth_credential and asked.exchanged_auth_credential.oauth2
    answer = given.exchanged_auth_credential and given.exchanged_auth_credential.oauth2
    if not oauth2 or not oauth2.state or not answer:
        return
    states = {answer.state or oauth2.state}
    if answer.auth_response_uri:
        states |= set(_query(answer.auth_response_uri).get("state", [""]))
    if states != {oauth2.state}:
        _refuse(f"{what} belongs to another request: its state is not the one that was sent.")


def _query(uri: str) -> dict[str, list[str]]:
    try:
        return parse_qs(urlsplit(uri).query)
    except ValueError:
        return {}


def _answered(item: Tracked, data: dict[str, Any], **more: Any) -> Answer:
    response = types.FunctionResponse(id=item.call.call_id, name=item.call.name, response=data)
    return Answer(call=item.call, response=response, **more)


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'it'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)
    )
