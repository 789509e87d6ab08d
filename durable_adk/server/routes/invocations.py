"""Routes of one invocation: its events, its attempts, and what may be done to it."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from google.genai import types
from starlette.responses import Response
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.invocation_client import Feed, InvocationClient
from durable_adk.client.invocations import started_with
from durable_adk.errors import (
    AmbiguousInvocationError,
    InvalidRequestError,
    InvocationNotFoundError,
    TemporalUnavailableError,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.json_values import check_id
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.feed import EventItem, FeedEntry, entries_of
from durable_adk.server.routes.body import From, RequestBody, as_json
from durable_adk.server.routes.listing import OfApp, OfSession, OfUser
from durable_adk.server.routes.records import (
    AttemptSummary,
    InvocationDetails,
    InvocationSummary,
    attempts_of,
    detailed,
    events_of_invocation,
    queued,
    summarized,
    summary_of,
)
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.server.streams import ITEMS, EventStream, Reading
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey, checked_key
from durable_adk.wire.messages import InvocationRequest, WhenBusy, workflow_id

router = APIRouter(prefix="/invocations", tags=["invocations"])
_KEYS = uuid.UUID("6f0d1a52-54a5-4f0c-9d61-0d5a0a4b8f52")
_STARTED = 2.0
"""Seconds for a started invocation to open; then the response says that it waits."""
_ACCEPTED = 10.0
"""Seconds for a worker to accept an answer or a message."""


_ALSO_JSON: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {}}}}


class NewInvocation(RequestBody):
    """An invocation to start."""

    app_name: str
    user_id: str
    session_id: str
    new_message: types.Content | None = None
    """None: the agent continues on what the session holds."""
    state_delta: dict[str, Any] | None = None
    when_busy: WhenBusy = WhenBusy.ENQUEUE
    streaming: bool = True
    """Whether chunks of answers are sent to those who read."""
    custom_metadata: dict[str, Any] | None = None
    create_session: bool = False
    """Whether a missing session is created."""


class SteeringMessage(RequestBody):
    """A message for the invocation that is active."""

    message: types.Content


class Located:
    """An invocation that was asked for by its id, and the session that has it."""

    def __init__(self, key: SessionKey, record: InvocationRecord) -> None:
        self.key = key
        self.record = record


async def located(  # noqa: PLR0917 - FastAPI passes them by name
    services: CurrentServices,
    caller: CurrentCaller,
    invocation_id: str,
    app_name: OfApp = None,
    user_id: OfUser = None,
    session_id: OfSession = None,
) -> Located:
    """Find an invocation that the caller may reach, in the sessions that the query names.

    Clients choose ids, so several sessions may have the same one. None of them is guessed: what
    follows may be an approval.

    Raises:
        InvocationNotFoundError: There is none, or it is another user's.
        AmbiguousInvocationError: Several sessions have it.
    """
    wanted = (app_name, user_id, session_id)
    name = check_id(invocation_id, "invocation_id")
    found = [
        Located(key, record)
        for key in await services.session_service.sessions_with(name)
        if caller.may_reach(key.user_id)
        and all(given in (None, own) for given, own in zip(wanted, key, strict=True))
        and (record := await services.session_service.get_invocation(key, name)) is not None
    ]
    if not found:
        raise InvocationNotFoundError(f"There is no invocation {name!r}.")
    if len(found) > 1:
        raise AmbiguousInvocationError(
            f"Several sessions have an invocation {name!r}; pass app_name, user_id and session_id."
        )
    return found[0]


ThisInvocation = Annotated[Located, Depends(located)]
"""The type of an argument that is to be the invocation of the path."""


class Waiting(NamedTuple):
    """A message that Temporal has, and that has no invocation of its own in the store, yet."""

    key: SessionKey
    invocation_id: str


async def located_or_waiting(  # noqa: PLR0917 - FastAPI passes them by name
    services: CurrentServices,
    caller: CurrentCaller,
    invocation_id: str,
    app_name: OfApp = None,
    user_id: OfUser = None,
    session_id: OfSession = None,
) -> Located | Waiting:
    """Find an invocation as `located` does, or a message that waits for its session.

    The store tells nothing of the latter, so the query has to name the session.

    Raises:
        InvocationNotFoundError: There is none, or it is another user's.
        AmbiguousInvocationError: Several sessions have it.
        TemporalUnavailableError: Temporal does not answer.
    """
    try:
        return await located(services, caller, invocation_id, app_name, user_id, session_id)
    except InvocationNotFoundError:
        if app_name is None or user_id is None or session_id is None:
            raise
        key, name = checked_key(app_name, user_id, session_id), invocation_id.strip()
        if not caller.may_reach(key.user_id) or not (
            await _recipient(services, key, name) or await _is_open(services, key, name)
        ):
            raise
        return Waiting(key, name)


ThisMessage = Annotated[Located | Waiting, Depends(located_or_waiting)]
"""The type of an argument that is to be the invocation of the path, which may not have begun."""


@router.post("", status_code=202, response_model=InvocationSummary)
async def start_invocation(
    services: CurrentServices,
    caller: CurrentCaller,
    body: NewInvocation,
    idempotency_key: Annotated[
        str | None, Header(description="A request with the same key starts nothing again.")
    ] = None,
) -> Response:
    """Start an invocation, and return without reading its events."""
    key = checked_key(body.app_name, body.user_id, body.session_id)
    services.check_app(key.app_name)
    name = _name(key, idempotency_key)
    request = InvocationRequest.parse(
        {
            "app": key.app_name,
            "user": key.user_id,
            "session": key.session_id,
            "message": "" if body.new_message is None else body.new_message,
            "continues": body.new_message is None,
            "invocation_id": name,
            "state_delta": body.state_delta or {},
            "run_config": {
                "streaming_mode": "sse" if body.streaming else None,
                "custom_metadata": body.custom_metadata,
            },
            "create_session": body.create_session,
            "when_busy": body.when_busy,
        }
    )
    client = services.invocations(key.app_name, creates_sessions=body.create_session, chunks=False)
    is_new = idempotency_key is None
    feed = client.send(request, answered_by=caller.answered_by, is_new=is_new)
    summary = await _opened(key, name, feed) or await _started(services, key, name)
    if summary.queued and idempotency_key is not None:
        await _check_waiting(services, client, key, request)
    response = as_json(summary)
    response.status_code = 202
    return response


@router.get("/{invocation_id}", response_model=InvocationDetails)
async def get_invocation(services: CurrentServices, this: ThisMessage) -> Response:
    """Return all that is known of an invocation, without its events."""
    if isinstance(this, Located):
        return as_json(await detailed(services, this.key, this.record))
    recipient = await _recipient(services, *this)
    if recipient is not None:
        return as_json(await detailed(services, this.key, recipient))
    return as_json(queued(InvocationDetails, *this))


@router.get("/{invocation_id}/events", response_class=EventStream, responses=_ALSO_JSON)
async def get_events(
    services: CurrentServices,
    this: ThisMessage,
    request: Request,
    after: From,
    follow: Annotated[bool, Query(description="Wait for the events to come.")] = True,
) -> Response:
    """Stream what happens in an invocation until it is closed.

    With `Accept: application/json`, return the events that are committed as a list.
    """
    whole = "application/json" in request.headers.get("accept", "") or not follow
    if isinstance(this, Waiting):
        if whole:
            return as_json([])
        client = services.invocations(this.key.app_name)
        feed = entries_of(this.key, client.attach(*this, ends_at_pause=False))
        return EventStream(services, Reading(feed), ITEMS)
    name = this.record.invocation_id
    if whole:
        seq = max(after.seq, this.record.start_seq - 1)
        stored = await services.session_service.read_events(this.key, after=seq)
        own = [one for one in stored if one.event.invocation_id == name]
        return as_json([EventItem(seq=one.seq, event=one.event) for one in own])
    return EventStream(services, Reading(services.feed.invocation(this.key, name, after)), ITEMS)


@router.get("/{invocation_id}/attempts", response_model=list[AttemptSummary])
async def get_attempts(services: CurrentServices, this: ThisInvocation) -> Response:
    """Return the attempts at model calls, and at tool calls those without a result."""
    sessions = services.session_service
    events = await events_of_invocation(sessions, this.key, this.record)
    return as_json(await attempts_of(sessions, this.key, this.record, events))


@router.post("/{invocation_id}/cancel", response_model=InvocationSummary)
async def cancel(services: CurrentServices, this: ThisMessage) -> Response:
    """Ask an invocation to end; what it has committed stays."""
    client = services.invocations(this.key.app_name)
    if isinstance(this, Located):
        await client.cancel(this.key, this.record.invocation_id)
        return as_json(await _started(services, this.key, this.record.invocation_id))
    if not await client.cancel(*this):
        raise InvocationNotFoundError("The message was handed to the invocation that was active.")
    cancelled = {"status": Status.CANCELLED, "queued": None}
    return as_json(queued(InvocationSummary, *this).model_copy(update=cancelled))


@router.post("/{invocation_id}/steer", status_code=202)
async def steer(
    services: CurrentServices, this: ThisInvocation, body: SteeringMessage
) -> dict[str, Any]:
    """Hand a message to an invocation that runs, before its next model call."""
    if this.record.status is not Status.RUNNING:
        raise InvalidRequestError(
            f"The invocation is {this.record.status}; only one that runs can be steered."
        )
    name = f"e-{uuid.uuid4()}"
    app, user, session = this.key
    request = InvocationRequest.parse(
        {
            "app": app,
            "user": user,
            "session": session,
            "create_session": False,
            "message": body.message,
            "invocation_id": name,
            "when_busy": WhenBusy.STEER,
        }
    )
    if not await _begun(this.key, services.invocations(app).send(request), _STARTED):
        await _require_taken(services, this.key, name)
    return {"accepted": True, "messageId": name}


def _name(key: SessionKey, idempotency_key: str | None) -> str:
    """Return the id of an invocation to start; the same for the same key in a session."""
    if idempotency_key is None:
        return f"e-{uuid.uuid4()}"
    given = check_id(idempotency_key, "Idempotency-Key")
    return f"e-{uuid.uuid5(_KEYS, repr((*key, given)))}"


async def accepted(key: SessionKey, feed: Feed) -> None:
    """Wait until an answer was accepted, and read no further.

    Raises:
        CallerError: It was refused.
        TemporalUnavailableError: Nobody has said so in time.
    """
    if not await _begun(key, feed, _ACCEPTED):
        raise TemporalUnavailableError(
            f"No worker has accepted the answer within {_ACCEPTED:g} s. It may still arrive; "
            "sending the same answer again does no harm."
        )


async def _opened(key: SessionKey, name: str, feed: Feed) -> InvocationSummary | None:
    """Return an invocation that has just been opened; None: the store must be asked."""
    reading = Reading(_running(key, name, feed))
    try:
        await reading.first(_STARTED)
        return reading.shown
    finally:
        reading.close()


async def _running(key: SessionKey, name: str, feed: Feed) -> AsyncGenerator[InvocationSummary]:
    """Yield an invocation that runs, from the first items of its feed.

    They are all that a summary has, so a start reads nothing that its feed has not read.
    """
    events: list[Event] = []
    async with aclosing(feed):
        async for item in feed:
            if isinstance(item, StoredEvent):
                events.append(item.event)
            elif isinstance(item, InvocationRecord):
                if item.invocation_id == name and item.status is Status.RUNNING:
                    yield summary_of(key, item, next(iter(events), None), count=len(events))
                return


async def _begun(key: SessionKey, feed: Feed, seconds: float) -> bool:
    entries: AsyncGenerator[FeedEntry] = entries_of(key, feed)
    reading = Reading(entries)
    try:
        return await reading.first(seconds)
    finally:
        reading.close()


async def _started(services: ServerServices, key: SessionKey, name: str) -> InvocationSummary:
    """Return an invocation, or that its message waits.

    Raises:
        TemporalUnavailableError: Temporal does not have the message.
    """
    record = await services.session_service.get_invocation(key, name)
    record = record or await _recipient(services, key, name)
    if record is not None:
        return await summarized(services.session_service, key, record)
    await _require_taken(services, key, name)
    return queued(InvocationSummary, key, name)


async def _recipient(
    services: ServerServices, key: SessionKey, name: str
) -> InvocationRecord | None:
    """Return the invocation that has received a message as one of its own; None: there is none."""
    event = await services.session_service.delivered_event(key, name)
    return event and await services.session_service.get_invocation(key, event.invocation_id)


async def _is_open(services: ServerServices, key: SessionKey, name: str) -> bool:
    """Whether Temporal has a message that is not yet done with.

    Raises:
        TemporalUnavailableError: It does not say so.
    """
    try:
        found = await services.client.get_workflow_handle(workflow_id(key, name)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    return found.status is WorkflowExecutionStatus.RUNNING


async def _check_waiting(
    services: ServerServices, client: InvocationClient, key: SessionKey, request: InvocationRequest
) -> None:
    """Check that a message which waits is that of a request.

    Raises:
        EventConflictError: It is another one, which has come first.
    """
    name = request.invocation_id or ""
    first = await started_with(services.client, workflow_id(key, name))
    if first is not None:
        event = Event(
            invocation_id=name,
            content=first.user_content(),
            custom_metadata=first.run_config.custom_metadata,
            actions=EventActions(state_delta=first.state_delta),
        )
        client.check_same(event, name, request)


async def _require_taken(services: ServerServices, key: SessionKey, name: str) -> None:
    """Check that Temporal has a message, which is under way then.

    Raises:
        TemporalUnavailableError: It does not.
    """
    try:
        await services.client.get_workflow_handle(workflow_id(key, name)).describe()
    except RPCError as error:
        raise TemporalUnavailableError(
            "Temporal has not taken the message in time. Send it again; with the same "
            "Idempotency-Key it starts at most one invocation."
        ) from error
