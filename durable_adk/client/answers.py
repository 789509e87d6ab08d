"""The judge of answers to pending calls, for every door: HTTP, A2A, AG-UI, command line, `Runner`.

It decides whether an answer fits a call that waits, is the same again, comes too late or names
nothing. It is the same again if it has the id of an earlier one. `activities/invocation/pause.py`
checks it once more before it is stored.
"""

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from durable_adk.auth.auth_credential import AuthCredentialTypes
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.client.queries import read_calls
from durable_adk.conversation.answers import (
    Answer,
    answer_message,
    answered_call_ids,
    answered_invocation_ids,
    check_answers,
)
from durable_adk.conversation.history import USER
from durable_adk.conversation.pending_calls import TrackedCall, track_calls
from durable_adk.conversation.sent_message import is_sent_as
from durable_adk.errors import EventConflictError, InvalidRequestError, NotFoundError
from durable_adk.json_values import canonical
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import without_temp
from durable_adk.wire.messages import InvocationRequest, answer_event

_IDS = uuid.UUID("b7c1c0de-2f0e-4a55-9c0f-6c4f5d1f7a83")
_IsSpent = Callable[[SessionKey, str], Awaitable[bool]]
"""`Backend.is_spent`."""


@dataclass(frozen=True, kw_only=True)
class SentAnswer:
    """An answer as a door received it."""

    request: InvocationRequest = field(repr=False)
    """Its message may contain a credential."""
    answer_id: str | None = None
    """The answer's id; None: derived from the request's `invocation_id`, or without one any."""
    answered_by: dict[str, str] | None = None
    """The sender, as the server identified it."""
    once: bool = False
    """Whether the id is derived from the response and its sender. Not for a credential."""
    asked_by: str | None = None
    """The invocation whose calls are answered; None: the one that the request names, if its id is
    that of one, and else the newest (B-19)."""

    @property
    def key(self) -> SessionKey:
        """The session."""
        return self.request.key

    @property
    def named(self) -> str | None:
        """The invocation whose calls are answered, if the sender said so."""
        return self.asked_by or self.request.invocation_id


@dataclass(frozen=True, kw_only=True)
class JudgedAnswer:
    """An answer that fits its calls, or was stored before."""

    sent: SentAnswer
    first: StoredEvent | None = None
    """The event of the same answer, if it was stored before; the fields below are empty then."""
    answers: list[Answer] = field(default_factory=list[Answer])
    answer_id: str = ""
    record: InvocationRecord | None = None
    """The invocation that waits; None: the answer starts another."""
    starts: str = ""
    """The id of the invocation that the answer starts, because the one that asked has ended."""
    after: int = 0
    """The session's revision before it was judged."""


def is_answer(message: str | types.Content) -> bool:
    """Return whether a message answers calls."""
    return isinstance(message, types.Content) and bool(answered_call_ids(message))


async def judge(
    sessions: SessionLog, sent: SentAnswer, is_spent: _IsSpent, *, any_state: bool
) -> JudgedAnswer:
    """Return an answer with what becomes of it; with `any_state` a repetition's state may differ.

    Raises:
        AlreadyAnsweredError: A call has another answer, or its deadline has passed.
        EventConflictError: A different answer was sent with this id.
        InvalidRequestError: The message is text, or answers no pending call (TRAP-28).
    """
    request, message = sent.request, sent.request.message
    if not isinstance(message, types.Content) or not is_answer(message):
        raise InvalidRequestError("An answer is a message of function responses, not text.")
    stored, records = await _history(sessions, sent, message)
    events = [item.event for item in stored]
    asked = answered_invocation_ids(events, message, invocation_id=sent.named)
    calls = answered_call_ids(message)
    given = [
        event
        for event in events
        if event.author == USER and any(one.id in calls for one in event.get_function_responses())
    ]
    tracked = track_calls(events, invocation_id=sent.named)
    named = request.invocation_id in asked
    made = sorted(tracked[one].call.event_id for one in calls if named and one in tracked)
    last, name = (_id_of(sent, message, asked, made, earlier=len(given) - n) for n in (1, 0))
    names = {answer_event(one, last) for one in asked}
    if first := next((item for item in stored if item.event.id in names), None):
        delta = {} if any_state else without_temp(request.state_delta)
        _require_same(first, stored, message, delta, named=sent.named)
        return JudgedAnswer(sent=sent, first=first)
    statuses = {one: record.status for one, record in records.items()}
    answers = check_answers(events, message, statuses=statuses, invocation_id=sent.named)
    record = records.get(answers[0].call.invocation_id)
    if record is not None and not answers[0].update:
        return JudgedAnswer(sent=sent, answers=answers, answer_id=name, record=record)
    starts = request.invocation_id or f"e-{uuid.uuid4()}"
    if sent.once:
        starts = await _unspent(last, sent.key, is_spent)
        if not given or given[-1].invocation_id != starts:  # it does not repeat the last one
            starts = await _unspent(name, sent.key, is_spent)
    return JudgedAnswer(sent=sent, answers=answers, starts=starts)


async def find_call(
    sessions: SessionLog, key: SessionKey, record: InvocationRecord, call_id: str
) -> TrackedCall:
    """Return a call of an invocation that waits for an answer, or has waited.

    Raises:
        NotFoundError: The invocation has made no such call.
    """
    stored = await read_calls(sessions, key, record.start_seq)
    events, name = (item.event for item in stored), record.invocation_id
    found = track_calls(events, invocation_id=name).get(call_id)
    if found is None or found.call.invocation_id != record.invocation_id:
        raise NotFoundError(
            f"Invocation {record.invocation_id!r} has no call {call_id!r} to be answered."
        )
    return found


async def save_credentials(
    service: BaseCredentialService | None, key: SessionKey, answers: list[Answer]
) -> None:
    """Save the credentials in answers, before the answers are sent anywhere (TRAP-48).

    Raises:
        InvalidRequestError: There is a credential, but no credential service; or an API key is
            missing.
    """
    for answer in answers:
        given = answer.credential
        if given is None or given.exchanged_auth_credential is None:
            continue
        raw, got = given.raw_auth_credential, given.exchanged_auth_credential
        if raw and raw.auth_type is AuthCredentialTypes.API_KEY and not got.api_key:
            # Stored, it would be used for ever: a node asks only if there is none.
            raise InvalidRequestError(f"The answer to {answer.call.name} has no apiKey.")
        if service is None:
            raise InvalidRequestError(
                "The message holds a credential, but there is no credential_service to save it; "
                "give Runner the one that the workers use."
            )
        await service.save(
            app_name=key.app_name,
            user_id=key.user_id,
            key=given.key,
            credential=got,
        )


async def _history(
    sessions: SessionLog, sent: SentAnswer, message: types.Content
) -> tuple[list[StoredEvent], dict[str, InvocationRecord]]:
    """Return the events since the calls were made, and the invocations that made them."""
    calls, records = answered_call_ids(message), dict[str, InvocationRecord]()
    named = await sessions.get_invocation(sent.key, sent.named) if sent.named else None
    since = named.start_seq if named else None
    stored = await sessions.read_from_calls(sent.key, calls, since=since)
    events = (item.event for item in stored)
    for name in answered_invocation_ids(events, message, invocation_id=sent.named):
        record = await sessions.get_invocation(sent.key, name)
        if record is not None:
            records[name] = record
    if sent.answer_id or sent.once or sent.request.invocation_id:
        # The same answer may have ended the invocation in between, and is no update of itself.
        stored = await sessions.read_from_calls(sent.key, calls, since=since)
    return stored, records


def _id_of(
    sent: SentAnswer,
    message: types.Content,
    asked: Collection[str],
    made: Sequence[str],
    *,
    earlier: int,
) -> str:
    """Return an answer's id, the same if it is sent again.

    Args:
        sent: The answer.
        message: Its message.
        asked: The invocations that made the calls.
        made: The events with the calls, if the sender named their invocation: a node may ask under
            one id several times.
        earlier: Number of earlier answers to the calls, which may have said the same.
    """
    if sent.answer_id is not None:
        return sent.answer_id
    if sent.once:
        said = message.model_dump(mode="json", exclude_none=True)
        return _derived([*sent.key, sorted(asked), said, sent.answered_by, earlier])
    if not sent.request.invocation_id:
        return uuid.uuid4().hex
    text = canonical([sent.request.invocation_id, *answered_call_ids(message), *made])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _derived(parts: Sequence[object]) -> str:
    return f"e-{uuid.uuid5(_IDS, canonical(parts))}"


async def _unspent(name: str, key: SessionKey, is_spent: _IsSpent) -> str:
    """Return an id for an invocation, the same until a message of this id ends before it begins."""
    while await is_spent(key, name):
        name = _derived([name])
    return name


def _require_same(
    first: StoredEvent,
    stored: Sequence[StoredEvent],
    message: types.Content,
    delta: dict[str, Any],
    *,
    named: str | None,
) -> None:
    """Raise EventConflictError unless the earlier answer of this id is the same answer."""
    # Check it against the events before it, when its calls were pending.
    before = [item.event for item in stored if item.seq < first.seq]
    answers = check_answers(before, message, invocation_id=named)
    same = is_sent_as(first.event, answer_message(answers))
    kept = first.event.actions.state_delta
    if not same or any(kept.get(name) != value for name, value in delta.items()):
        raise EventConflictError(
            "Another answer to the same calls was given under this invocation_id or "
            "Idempotency-Key, and was kept. Use a new one, or none.",
            field="state_delta" if same else "new_message",
        )
