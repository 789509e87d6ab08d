"""Routes of one invocation: its events and attempts, and actions on it."""

import uuid
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from google.genai import types
from starlette.responses import Response

from durable_adk.client.answers import is_answer
from durable_adk.errors import InvalidRequestError, InvocationNotFoundError
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.feed import EventItem, entries_of
from durable_adk.server.routes.acceptance import begun, check_waiting, started, taken
from durable_adk.server.routes.body import From, RequestBody, as_json, large_list
from durable_adk.server.routes.invocation_lookup import (
    Located,
    ThisInvocation,
    ThisMessage,
    Waiting,
    recipient,
)
from durable_adk.server.routes.records import (
    AttemptSummary,
    ChildInvocation,
    InvocationDetails,
    InvocationSummary,
    attempts_of,
    children_of,
    detailed,
    outline_of,
    queued,
)
from durable_adk.server.routes.request_headers import Starting
from durable_adk.server.services import CurrentServices
from durable_adk.server.streams import ITEMS, EventStream, Reading
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import checked_key
from durable_adk.wire.messages import InvocationRequest, WhenBusy

router = APIRouter(prefix="/invocations", tags=["invocations"])
_ALSO_JSON: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {}}}}


class NewInvocation(RequestBody):
    """An invocation to start."""

    app_name: str
    user_id: str
    session_id: str
    new_message: types.Content | None = None
    """None: the agent continues with the session's content."""
    state_delta: dict[str, Any] | None = None
    when_busy: WhenBusy | None = None
    """What to do while another one is active in the session; same as header When-Busy."""
    streaming: bool = True
    """Whether readers also receive chunks of responses."""
    custom_metadata: dict[str, Any] | None = None
    create_session: bool = False
    """Whether to create a missing session."""


class SteeringMessage(RequestBody):
    """A message for the active invocation."""

    message: types.Content


@router.post("", status_code=202, response_model=InvocationSummary)
async def start_invocation(
    services: CurrentServices,
    caller: CurrentCaller,
    body: NewInvocation,
    headers: Starting,
) -> Response:
    """Start an invocation, and return without waiting for its events.

    Answers to calls are refused, because they continue an invocation.
    """
    key = checked_key(body.app_name, body.user_id, body.session_id)
    await services.check_app(key.app_name, caller)
    await services.check_room(key.app_name, caller)
    _refuse_answers(body.new_message)
    name = headers.invocation_id(key) or f"e-{uuid.uuid4()}"
    request = InvocationRequest.parse(
        {
            **key.ids(),
            "message": "" if body.new_message is None else body.new_message,
            "continues": body.new_message is None,
            "invocation_id": name,
            "state_delta": body.state_delta or {},
            "run_config": {
                "streaming_mode": "sse" if body.streaming else None,
                "custom_metadata": body.custom_metadata,
            },
            "create_session": body.create_session,
            "when_busy": headers.busy(body.when_busy),
        }
    )
    client = replace(services.invocations(key.app_name), partials=None)
    is_new = headers.idempotency_key is None
    await begun(key, client.start(request, is_new=is_new))
    summary = await started(services, key, name)
    if summary.queued and not is_new:
        await check_waiting(services, client, key, request)
    response = as_json(summary)
    response.status_code = 202
    return response


@router.get("/{invocation_id}", response_model=InvocationDetails)
async def get_invocation(
    services: CurrentServices, caller: CurrentCaller, this: ThisMessage
) -> Response:
    """Return all data of an invocation except its events."""
    if isinstance(this, Located):
        return as_json(await detailed(services, caller, this.key, this.record))
    record = await recipient(services, *this)
    if record is not None:
        return as_json(await detailed(services, caller, this.key, record))
    return as_json(queued(InvocationDetails, *this))


@router.get("/{invocation_id}/events", response_class=EventStream, responses=_ALSO_JSON)
async def get_events(
    services: CurrentServices,
    this: ThisMessage,
    request: Request,
    after: From,
    follow: Annotated[bool, Query(description="Wait for the events to come.")] = True,
) -> Response:
    """Stream an invocation's events and statuses until it is closed.

    With `Accept: application/json`, return the committed events as a list.
    """
    whole = "application/json" in request.headers.get("accept", "") or not follow
    if isinstance(this, Waiting):
        if whole:
            return as_json([])
        client = services.invocations(this.key.app_name, waits_for_worker=True)
        feed = entries_of(this.key, client.attach(*this, ends_at_pause=False))
        return EventStream(services, Reading(feed), ITEMS)
    name = this.record.invocation_id
    if whole:
        seq = max(after.seq, this.record.start_seq - 1)
        stored = await services.session_service.read_events(
            this.key, after=seq, max_size=services.settings.max_session_bytes
        )
        own = [one for one in stored if one.event.invocation_id == name]
        items = (EventItem(seq=one.seq, event=one.event) for one in own)
        return Response(await large_list(items), media_type="application/json")
    return EventStream(services, Reading(services.feed.invocation(this.key, name, after)), ITEMS)


@router.get("/{invocation_id}/attempts", response_model=list[AttemptSummary])
async def get_attempts(services: CurrentServices, this: ThisInvocation) -> Response:
    """Return the attempts of model calls, and those of tool calls that have no result."""
    sessions = services.session_service
    events = await outline_of(sessions, this.key, this.record)
    return as_json(await attempts_of(sessions, this.key, this.record, events))


@router.get("/{invocation_id}/children", response_model=list[ChildInvocation])
async def get_children(
    services: CurrentServices, caller: CurrentCaller, this: ThisInvocation
) -> Response:
    """Return the invocations of agents that its calls ran as tools, each with its own children.

    Each has its own session, whose id all other routes need to find it.
    """
    return as_json(await children_of(services.session_service, caller, this.key, this.record))


@router.post("/{invocation_id}/cancel", response_model=InvocationSummary)
async def cancel(services: CurrentServices, this: ThisMessage) -> Response:
    """Request the cancellation of an invocation; its committed events remain."""
    client = services.invocations(this.key.app_name)
    if isinstance(this, Located):
        await client.cancel(this.key, this.record.invocation_id)
        return as_json(await started(services, this.key, this.record.invocation_id))
    if not await client.cancel(*this):
        raise InvocationNotFoundError("The message was handed to the invocation that was active.")
    cancelled = {"status": Status.CANCELLED, "queued": None}
    return as_json(queued(InvocationSummary, *this).model_copy(update=cancelled))


@router.post("/{invocation_id}/steer", status_code=202)
async def steer(
    services: CurrentServices,
    caller: CurrentCaller,
    this: ThisInvocation,
    body: SteeringMessage,
    headers: Starting,
) -> dict[str, Any]:
    """Deliver a message to a running invocation before its next model call.

    With an Idempotency-Key, repeated requests deliver the message once, and also succeed later.
    """
    await services.check_room(this.key.app_name, caller)
    _refuse_answers(body.message)
    requested_id = headers.invocation_id(this.key)
    is_known = (
        requested_id is not None and await recipient(services, this.key, requested_id) is not None
    )
    if this.record.status is not Status.RUNNING and not is_known:
        raise InvalidRequestError(
            f"The invocation is {this.record.status}; only one that runs can be steered."
        )
    name = requested_id or f"e-{uuid.uuid4()}"
    request = InvocationRequest.parse(
        {
            **this.key.ids(),
            "create_session": False,
            "message": body.message,
            "invocation_id": name,
            "when_busy": headers.busy(WhenBusy.STEER),
        }
    )
    feed = services.invocations(this.key.app_name).start(request)
    await taken(services, this.key, name, feed)
    return {"accepted": True, "messageId": name}


def _refuse_answers(message: types.Content | None) -> None:
    if is_answer(message or ""):
        raise InvalidRequestError(
            "The message answers calls: send each answer to POST /invocations/{id}/answers, or "
            "the message to /run or /run_sse."
        )
