"""ADK's routes that run an agent."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from google.genai import types
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from durable_adk.client.answers import is_answer
from durable_adk.client.invocation_client import Feed
from durable_adk.client.streaming import FeedItem
from durable_adk.errors import InvalidRequestError, SessionNotFoundError
from durable_adk.events.event import Event
from durable_adk.json_values import check_id
from durable_adk.partials import PartialEvent
from durable_adk.server.caller import Caller, CurrentCaller
from durable_adk.server.feed import (
    EventItem,
    FeedEntry,
    FeedPosition,
    PartialItem,
    StatusItem,
    entries_of,
)
from durable_adk.server.routes.acceptance import check_waiting
from durable_adk.server.routes.body import From, RequestBody
from durable_adk.server.routes.errors import error_response
from durable_adk.server.routes.request_headers import StartHeaders, Starting
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.server.streams import EventStream, Reading, Renderer, left, sent
from durable_adk.sessions.records import Status, StoredEvent
from durable_adk.sessions.session import SessionKey, checked_key
from durable_adk.wire.messages import InvocationRequest, WhenBusy, check_follows
from durable_adk.wire.run_config import RunConfig

router = APIRouter(tags=["runs"])


class RunBody(RequestBody):
    """A message to an agent, or answers to its calls."""

    app_name: str
    user_id: str
    session_id: str
    new_message: types.Content | None = None
    streaming: bool = False
    """Whether to also send chunks of responses."""
    state_delta: dict[str, Any] | None = None
    function_call_event_id: str | None = None
    """The event whose call is answered; if set, no event is sent in two parts."""
    invocation_id: str | None = None
    """A request with the same id and message follows the first one."""
    custom_metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    """Ignored: this runtime has no service tiers."""
    when_busy: WhenBusy | None = None
    """What to do while another invocation is active in the session; same as header When-Busy."""

    @property
    def key(self) -> SessionKey:
        """The session.

        Raises:
            InvalidRequestError: An id is invalid.
        """
        return checked_key(self.app_name, self.user_id, self.session_id)

    def check_follows(self) -> None:
        """See `durable_adk.wire.messages.check_follows`."""
        check_follows(self.state_delta, RunConfig(custom_metadata=self.custom_metadata))

    def request(self, headers: StartHeaders) -> InvocationRequest:
        """Return the request that starts or answers an invocation.

        Raises:
            CallerError: The request is malformed, or body and headers contradict each other.
        """
        config: dict[str, Any] = {"custom_metadata": self.custom_metadata}
        if self.streaming:
            config["streaming_mode"] = "sse"
        found: dict[str, Any] = {
            "message": "" if self.new_message is None else self.new_message,
            "continues": self.new_message is None,
            "invocation_id": headers.invocation_id(self.key, self.invocation_id),
            "state_delta": self.state_delta or {},
            "run_config": config,
            "when_busy": headers.busy(self.when_busy),
        }
        return InvocationRequest.parse({**self.key.ids(), "create_session": False, **found})


@router.post("/run", response_model=list[Event])
async def run(
    services: CurrentServices,
    caller: CurrentCaller,
    body: RunBody,
    request: Request,
    headers: Starting,
) -> Response:
    """Run an agent, and return its events once it has ended or waits.

    It continues if the client disconnects, or if the server stops before its end.
    """
    await _check(services, caller, body)
    whole = body.model_copy(update={"streaming": False})
    name = headers.invocation_id(body.key, body.invocation_id) or f"e-{uuid.uuid4()}"
    reading = Reading(_started(services, caller, whole, headers, new_id=name))
    events: list[str] = []
    failure: StatusItem | None = None
    async with _interruption(services, request) as interrupted:
        async for entry in reading.entries(interrupted):
            if isinstance(entry.item, EventItem):
                name = entry.item.event.invocation_id
                events += [event.to_json() for event in _shown(entry.item.event)]
            elif isinstance(entry.item, StatusItem) and entry.item.error:
                failure = entry.item
    if await request.is_disconnected():
        return Response(status_code=499)
    if interrupted.is_set():
        return _still_running_response(name)
    if failure is not None and failure.error:
        status = 409 if failure.status is Status.CANCELLED else 500  # cancelled on request
        return error_response(
            status,
            str(failure.error["type"]),
            str(failure.error["message"]),
            frames=_visible_frames(caller, failure),
        )
    return Response(f"[{','.join(events)}]", media_type="application/json")


async def _check(services: ServerServices, caller: Caller, body: RunBody) -> None:
    """Check that the caller may use the app, and may send another message."""
    await services.check_app(body.app_name, caller)
    if body.new_message is not None and not is_answer(body.new_message):
        await services.check_room(body.app_name, caller)


@asynccontextmanager
async def _interruption(
    services: ServerServices, request: Request
) -> AsyncGenerator[asyncio.Event]:
    """Yield an event that is set when the client disconnects, or the server stops."""
    interrupted = asyncio.Event()
    waits = [
        asyncio.ensure_future(left(request.receive)),
        asyncio.ensure_future(services.stopped()),
    ]
    for one in waits:
        one.add_done_callback(lambda one: one.cancelled() or interrupted.set())
    try:
        yield interrupted
    finally:
        for one in waits:
            one.cancel()


def _still_running_response(name: str) -> Response:
    """Return a 503 that names the invocation: a retry without its id would start another run."""
    problem = (
        f"The server stops, and the invocation {name!r} continues. Read it with GET "
        f"/invocations/{quote(name, safe='')}/events; if there is none yet, send the message again "
        "with this invocationId."
    )
    return error_response(503, "TransientError", problem, invocation_id=name)


@router.post("/run_sse", response_class=EventStream)
async def run_sse(
    services: CurrentServices,
    caller: CurrentCaller,
    body: RunBody,
    after: From,
    headers: Starting,
) -> Response:
    """Run an agent, and stream its chunks, and its events as they are committed.

    It continues if the client disconnects. To follow it, send the invocation's id, without a
    message or with the same one, and the `id` of the last item as Last-Event-ID.
    """
    await _check(services, caller, body)
    splits, continues = not body.function_call_event_id, after != FeedPosition()
    name = headers.invocation_id(body.key, body.invocation_id)
    if continues and not name and not is_answer(body.new_message or ""):
        raise InvalidRequestError(
            "Last-Event-ID continues the stream of an invocation: name its `invocationId`, or send "
            "the Idempotency-Key of its start. Without the header the request starts another one."
        )
    if continues and name and body.new_message is None:
        body.check_follows()
        entries = services.feed.invocation(body.key, name, after, until_pause=True)
    else:
        entries = _started(services, caller, body, headers, after=after)
    reading = Reading(entries)
    repeats = body.new_message is not None or not (body.invocation_id or continues)
    if (
        not await reading.first()
        and name
        and repeats  # otherwise it only follows, whatever was sent
        and not is_answer(body.new_message or "")
    ):
        await _check_waiting(services, body, headers, reading)
    render = Renderer[FeedEntry](
        entry=lambda entry: _rendered(entry, caller, splits=splits, after=after), error=_error
    )
    return EventStream(services, reading, render)


async def _check_waiting(
    services: ServerServices, body: RunBody, headers: StartHeaders, reading: Reading[FeedEntry]
) -> None:
    """Check that the message that waits for its session is the request's message."""
    try:
        client = services.invocations(body.app_name)
        await check_waiting(services, client, body.key, body.request(headers))
    except BaseException:
        reading.close()
        raise


def _started(
    services: ServerServices,
    caller: Caller,
    body: RunBody,
    headers: StartHeaders,
    *,
    new_id: str | None = None,
    after: FeedPosition | None = None,
) -> AsyncGenerator[FeedEntry]:
    """Start or answer an invocation, or attach to it, as `Runner.run_async` does.

    Args:
        services: The server's services.
        caller: The sender of the request.
        body: The request's body.
        headers: The request's headers.
        new_id: Id for a started invocation; None: any.
        after: The position of a client that repeats the request; None: yield everything.
    """
    after = after or FeedPosition()
    invocations = services.invocations(body.app_name)
    if body.new_message is None and body.invocation_id:
        body.check_follows()
        name = check_id(body.invocation_id, "invocation_id")
        return _found(body, invocations.attach(body.key, name), after)
    request = body.request(headers)
    if new_id and not is_answer(request.message):
        request = request.model_copy(update={"invocation_id": check_id(new_id, "invocation_id")})
    return _found(body, invocations.send(request, answered_by=caller.answered_by), after)


async def _found(body: RunBody, feed: Feed, after: FeedPosition) -> AsyncGenerator[FeedEntry]:
    """Yield a feed's entries after a position; report a missing session as ADK does."""
    async with aclosing(entries_of(body.key, _items_after(feed, after), after)) as entries:
        try:
            async for entry in entries:
                yield entry
        except SessionNotFoundError:
            raise SessionNotFoundError(f"Session not found: {body.session_id}") from None


async def _items_after(feed: Feed, after: FeedPosition) -> Feed:
    """Yield a feed's items after a position, and close the feed."""
    async with aclosing(feed):
        async for item in feed:
            if (remaining := _remaining(item, after)) is not None:
                yield remaining


def _remaining(item: FeedItem, after: FeedPosition) -> FeedItem | None:
    """Return the part of an item that comes after the reader's position, or None."""
    shown = after.chunk
    match item:
        case StoredEvent(seq=seq):
            return item if seq > after.seq else None
        case PartialEvent(event=event, attempt=attempt) if shown and event.id == shown.event_id:
            if attempt == shown.attempt:
                return item.rest(shown.index + 1)
            return item if attempt > shown.attempt else None
        case _:
            return item


def _shown(event: Event) -> Iterable[Event]:
    """Yield an event unless the user is its author, as `Runner.run_async` does."""
    if event.author != "user":
        yield event


def _visible_frames(caller: Caller, failure: StatusItem) -> list[str]:
    return failure.frames if caller.is_operator else []


def _rendered(
    entry: FeedEntry, caller: Caller, *, splits: bool, after: FeedPosition
) -> Iterable[ServerSentEvent]:
    """Yield the SSE events of an entry that come after the reader's position."""
    match entry.item:
        case EventItem(seq=seq, event=event):
            parts = [part for one in _shown(event) for part in _parts(one, splits=splits)]
            shown = after.parts if seq == after.seq + 1 else 0
            for number, part in list(enumerate(parts, 1))[shown:]:
                between = FeedPosition(seq=seq - 1, parts=number)
                yield sent(
                    part.to_json(), position=between if number < len(parts) else entry.position
                )
        case PartialItem(event=event):
            yield sent(event.to_json(), position=entry.position)
        case StatusItem(error=dict() as error) as failure:
            frames = _visible_frames(caller, failure)
            yield _error(str(error["type"]), str(error["message"]), frames=frames)
        case StatusItem():
            pass


def _parts(event: Event, *, splits: bool) -> list[Event]:
    """Return an event in the parts that ADK's page expects: its content, then its artifacts."""
    if not (splits and event.actions.artifact_delta and event.content and event.content.parts):
        return [event]
    without = event.actions.model_copy(update={"artifact_delta": {}})
    return [
        event.model_copy(update={"actions": without}),
        event.model_copy(update={"content": None}),
    ]


def _error(
    kind: str, message: str, invocation_id: str | None = None, *, frames: list[str] | None = None
) -> ServerSentEvent:
    details = {"error_type": kind, "error_message": message, "timestamp": time.time()}
    details |= {"invocation_id": invocation_id} if invocation_id else {}
    details |= {"at": frames} if frames else {}
    body = json.dumps({"error": f"{kind}: {message}", "error_details": details})
    return ServerSentEvent(body, sep="\n")
