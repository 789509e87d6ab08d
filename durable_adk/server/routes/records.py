"""Summaries and details of an invocation."""

from collections.abc import Collection, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from google.genai import types
from pydantic import Field

from durable_adk.client.feed import paged
from durable_adk.client.queries import LocatedCall, pending_calls_of, read_attempts, read_unfinished
from durable_adk.conversation.pending_request import PendingRequest, pending_request
from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel
from durable_adk.server.caller import Caller
from durable_adk.server.feed import error_of
from durable_adk.server.services import ServerServices
from durable_adk.sessions.call_attempt import CallAttempt
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import child_key

Known = TypeVar("Known", bound="KnownInvocation")
PREVIEW = 200
"""Maximum characters of a message in a list."""


class KnownInvocation(JsonModel):
    """The common fields of an invocation's summary and details."""

    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    status: Status
    queued: bool | None = None
    """Set if it waits for the session to become free."""
    error: dict[str, Any] | None = None
    message: str | None = None
    """The beginning of the user's message."""
    start_time: float | None = None
    """Seconds since the epoch."""
    update_time: float | None = None
    """Time of the last status change."""
    events: int = 0


class InvocationSummary(KnownInvocation):
    """An invocation in a list."""

    pending: int = 0
    """Number of calls that wait for an answer."""


class TokenUsage(JsonModel):
    """Tokens used by an invocation's responses, as reported by the models."""

    prompt_tokens: int = 0
    candidates_tokens: int = 0
    total_tokens: int = 0


class ModelUsage(TokenUsage):
    """The responses of one model, and their tokens."""

    model: str
    """The model's name; empty if it did not report one."""
    calls: int
    thoughts_tokens: int = 0


class ChildInvocation(KnownInvocation):
    """An invocation of an agent that ran as a tool; it has the id of the calling invocation."""

    call_id: str
    """The call, in the calling invocation's session. A tool may run its agent several times."""
    tool: str
    models: list[ModelUsage] = Field(default_factory=list[ModelUsage])
    """Usage without that of its own children."""
    children: list["ChildInvocation"] = Field(default_factory=list["ChildInvocation"])


class AttemptSummary(JsonModel):
    """One attempt of a model call, or of a tool call without a result."""

    event_id: str
    """The event that the call produces."""
    agent: str | None = None
    model: str | None = None
    tool: str | None = None
    """The tool's name; None for a model."""
    call_id: str | None = None
    """The tool's call; None for a model."""
    attempt: int
    outcome: str
    """``completed``, ``failed``, ``cancelled`` or ``lost`` with its worker."""
    error: dict[str, Any] | None = None
    worker: str | None = None
    """Identity of its worker; None if unknown: the attempt completed, or was lost before its first
    heartbeat."""
    start_time: float | None = None
    end_time: float | None = None
    usage: TokenUsage | None = None


class InvocationDetails(KnownInvocation):
    """All data of an invocation except its events; for operators also where it runs."""

    pending: list[PendingRequest] = Field(default_factory=list[PendingRequest])
    attempts: list[AttemptSummary] = Field(default_factory=list[AttemptSummary])
    workflow_id: str | None = None
    temporal_url: str | None = None
    usage: TokenUsage = Field(default_factory=TokenUsage)
    unfinished: list[str] = Field(default_factory=list[str])
    """Why branches of a graph ended before its last node."""


async def summarized(
    sessions: SessionLog, key: SessionKey, record: InvocationRecord
) -> InvocationSummary:
    """Return an invocation's summary."""
    start = record.start_seq
    stored = await sessions.read_events(key, after=start - 1, upto=start)
    first = stored[0].event if stored else None
    paused = record.status is Status.PAUSED
    calls = await pending_calls_of(sessions, key, record.invocation_id) if paused else []
    return InvocationSummary(
        **key._asdict(),
        invocation_id=record.invocation_id,
        status=record.status,
        error=error_of(record),
        message=first.text[:PREVIEW] if first and first.text else None,
        start_time=first.timestamp if first else None,
        update_time=record.update_time or None,
        events=await sessions.count_events(key, record),
        pending=len(calls),
    )


def queued(kind: type[Known], key: SessionKey, name: str) -> Known:
    """Return the summary or details of a message that waits for its session."""
    return kind(**key._asdict(), invocation_id=name, status=Status.RUNNING, queued=True)


async def detailed(
    services: ServerServices, caller: Caller, key: SessionKey, record: InvocationRecord
) -> InvocationDetails:
    """Return all data of an invocation that a caller may read."""
    sessions = services.session_service
    summary = await summarized(sessions, key, record)
    events = await outline_of(sessions, key, record)
    calls = await pending_calls_of(sessions, key, record.invocation_id)
    lease_owner = TemporalLeaseOwner.parse(record.lease_owner) if caller.is_operator else None
    workflow_id = lease_owner and lease_owner.workflow_id
    return InvocationDetails(
        **_known(summary, record, caller),
        pending=requests_of(calls),
        attempts=await attempts_of(sessions, key, record, events),
        workflow_id=workflow_id,
        temporal_url=_temporal_url(services, lease_owner),
        usage=_total([event.usage_metadata for event in events if event.usage_metadata]),
        unfinished=[
            one.reason for one in await read_unfinished(sessions, key, record.invocation_id)
        ],
    )


async def children_of(
    sessions: SessionLog, caller: Caller, key: SessionKey, record: InvocationRecord
) -> list[ChildInvocation]:
    """Return the invocations of agents that ran as tools, in the order of their calls."""
    found = await sessions.sessions_with(record.invocation_id)
    children = {one for one in found if one.is_child}
    if not children:
        return []
    events = await outline_of(sessions, key, record)
    return await _children(sessions, caller, key, record.invocation_id, events, children)


async def _children(  # noqa: PLR0917 - it calls itself
    sessions: SessionLog,
    caller: Caller,
    key: SessionKey,
    name: str,
    events: Sequence[Event],
    known: Collection[SessionKey],
) -> list[ChildInvocation]:
    found = list[ChildInvocation]()
    calls = {call.id or "": call for event in events for call in event.get_function_calls()}
    for call_id, call in calls.items():
        run = 0
        while (child := child_key(key, name, call_id, run)) in known:
            run += 1
            record = await sessions.get_invocation(child, name)
            if record is None:
                continue  # not begun yet
            summary = await summarized(sessions, child, record)
            own = await outline_of(sessions, child, record)
            found.append(
                ChildInvocation(
                    **_known(summary, record, caller),
                    call_id=call_id,
                    tool=call.name or "",
                    models=_by_model(own),
                    children=await _children(sessions, caller, child, name, own, known),
                )
            )
    return found


def _by_model(events: Sequence[Event]) -> list[ModelUsage]:
    """Return the tokens of each model's responses, counted as the page does for a session."""
    answers = dict[str, list[types.GenerateContentResponseUsageMetadata]]()
    for event in events:
        if event.usage_metadata or event.model_version:
            counts = event.usage_metadata or types.GenerateContentResponseUsageMetadata()
            answers.setdefault(event.model_version or "", []).append(counts)
    return [
        ModelUsage(
            **dict(_total(counts)),
            model=model,
            calls=len(counts),
            thoughts_tokens=sum(one.thoughts_token_count or 0 for one in counts),
        )
        for model, counts in answers.items()
    ]


def _known(summary: InvocationSummary, record: InvocationRecord, caller: Caller) -> dict[str, Any]:
    found: dict[str, Any] = {name: value for name, value in summary if name != "pending"}
    found["error"] = error_of(record, caller)
    return found


def requests_of(calls: Sequence[LocatedCall]) -> list[PendingRequest]:
    """Return pending calls as JSON."""
    return [pending_request(item.key, item.call) for item in calls]


async def outline_of(
    sessions: SessionLog, key: SessionKey, record: InvocationRecord
) -> list[Event]:
    """Return an invocation's committed events: authors, counts, and calls without arguments.

    They are read in pages, so that memory holds only these outlines of a long invocation.
    """
    read = partial(sessions.read_page, key, upto=record.end_seq)
    async with aclosing(paged(read, record.start_seq - 1)) as stored:
        return [
            _outline(item.event)
            async for item in stored
            if item.event.invocation_id == record.invocation_id
        ]


def _outline(event: Event) -> Event:
    calls = (types.FunctionCall(id=call.id, name=call.name) for call in event.get_function_calls())
    return Event(
        id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        timestamp=event.timestamp,
        content=types.Content(parts=[types.Part(function_call=call) for call in calls]),
        model_version=event.model_version,
        usage_metadata=event.usage_metadata,
    )


async def attempts_of(
    sessions: SessionLog, key: SessionKey, record: InvocationRecord, events: Sequence[Event]
) -> list[AttemptSummary]:
    """Return the attempts in the order of their ends, the lost ones first.

    For tool calls, only attempts without a result: the response represents the others.
    """
    failed = await read_attempts(sessions, key, record.invocation_id)
    authors = {event.id: event.author for event in events}
    found = [_failed(one, authors.get(one.event_id)) for one in failed]
    numbers = {one.event_id: one.attempt for one in failed if not one.tool}
    found += [
        _completed(event, numbers.get(event.id, 0) + 1)
        for event in events
        if event.author != "user" and (event.model_version or event.usage_metadata)
    ]
    return sorted(found, key=lambda one: one.end_time or 0.0)


def _failed(one: CallAttempt, agent: str | None) -> AttemptSummary:
    error = one.error_type and {"type": one.error_type, "message": one.error_message}
    known = one.started is not None and one.seconds is not None
    return AttemptSummary(
        event_id=one.event_id,
        agent=agent,
        model=one.model or None,
        tool=one.tool or None,
        call_id=one.call_id or None,
        attempt=one.attempt,
        outcome=one.ended.value,
        error=error or None,
        worker=one.worker,
        start_time=one.started,
        end_time=(one.started or 0.0) + (one.seconds or 0.0) if known else one.started,
        usage=_total([one.usage_metadata]) if one.usage_metadata else None,
    )


def _completed(event: Event, attempt: int) -> AttemptSummary:
    return AttemptSummary(
        event_id=event.id,
        agent=event.author,
        model=event.model_version,
        attempt=attempt,
        outcome="completed",
        end_time=event.timestamp,
        usage=_total([event.usage_metadata]) if event.usage_metadata else None,
    )


def _total(counts: Sequence[types.GenerateContentResponseUsageMetadata]) -> TokenUsage:
    return TokenUsage(
        prompt_tokens=sum(one.prompt_token_count or 0 for one in counts),
        candidates_tokens=sum(one.candidates_token_count or 0 for one in counts),
        total_tokens=sum(one.total_token_count or 0 for one in counts),
    )


def _temporal_url(services: ServerServices, owner: TemporalLeaseOwner | None) -> str | None:
    base = services.settings.temporal_ui
    if base is None or owner is None:
        return None
    path = f"namespaces/{owner.namespace}/workflows/{owner.workflow_id}"
    return f"{base.rstrip('/')}/{path}"
