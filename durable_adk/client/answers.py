"""Answers to pending calls: validation, credentials, and repeats."""

import hashlib
import uuid

from google.genai import types

from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.conversation.answers import (
    Answer,
    answer_message,
    answered_call_ids,
    answered_invocation_ids,
    check_answers,
)
from durable_adk.conversation.sent_message import is_sent_as
from durable_adk.errors import EventConflictError, InvalidRequestError
from durable_adk.json_values import canonical
from durable_adk.sessions.records import Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import without_temp
from durable_adk.wire.messages import InvocationRequest, answer_event


async def checked_answers(
    sessions: SessionLog, key: SessionKey, request: InvocationRequest
) -> list[Answer]:
    """Return the answers in a message, checked against the session's pending calls.

    Raises:
        InvalidRequestError: The message is text, or answers no pending call (TRAP-28).
    """
    message = request.message
    if not isinstance(message, types.Content):
        raise InvalidRequestError("An answer is a message of function responses, not text.")
    stored = await sessions.read_from_calls(key, answered_call_ids(message))
    events = [item.event for item in stored]
    statuses: dict[str, Status] = {}
    for name in answered_invocation_ids(events, message):
        record = await sessions.get_invocation(key, name)
        if record is not None:
            statuses[name] = record.status
    return check_answers(events, message, statuses=statuses)


async def save_credentials(
    service: BaseCredentialService | None, key: SessionKey, answers: list[Answer]
) -> None:
    """Save the credentials in answers, before the answers are sent anywhere (TRAP-48).

    Raises:
        InvalidRequestError: There is a credential, but no credential service.
    """
    for answer in answers:
        given = answer.credential
        if given is None or given.exchanged_auth_credential is None:
            continue
        if service is None:
            raise InvalidRequestError(
                "The message holds a credential, but there is no credential_service to save it; "
                "give Runner the one that the workers use."
            )
        await service.save(
            app_name=key.app_name,
            user_id=key.user_id,
            key=given.key,
            credential=given.exchanged_auth_credential,
        )


def answer_id_of(request: InvocationRequest) -> str:
    """Return the id of an answer; a repeated request with an invocation_id has the same one."""
    if not request.invocation_id:
        return uuid.uuid4().hex
    calls = answered_call_ids(request.user_content()) if request.message else []
    return hashlib.sha256(canonical([request.invocation_id, *calls]).encode()).hexdigest()[:32]


async def sent_before(
    sessions: SessionLog,
    key: SessionKey,
    request: InvocationRequest,
    answer_id: str,
    *,
    any_state: bool = False,
) -> StoredEvent | None:
    """Return the event of the same answer, if it was sent and stored earlier.

    With `any_state` its state changes may differ.

    Raises:
        EventConflictError: A different answer was sent with this id.
    """
    message = request.user_content()
    stored = await sessions.read_from_calls(key, answered_call_ids(message))
    events = [item.event for item in stored]
    names = {answer_event(name, answer_id) for name in answered_invocation_ids(events, message)}
    index = next((i for i, event in enumerate(events) if event.id in names), None)
    if index is None:
        return None
    # Check it against the events before it, when its calls were pending.
    event, stored_delta = events[index], events[index].actions.state_delta
    same = is_sent_as(event, answer_message(check_answers(events[:index], message)))
    delta = {} if any_state else without_temp(request.state_delta)
    field = "state_delta" if same else "new_message"
    if not same or any(stored_delta.get(key) != value for key, value in delta.items()):
        raise EventConflictError(
            "Another answer to the same calls was given under this invocation_id or "
            "Idempotency-Key, and was kept. Use a new one, or none.",
            field=field,
        )
    return stored[index]
