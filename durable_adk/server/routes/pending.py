"""Routes of pending calls and their answers."""

import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from google.genai import types
from pydantic import Field, StrictBool
from starlette.responses import Response

from durable_adk.client.queries import (
    InvocationFilter,
    LocatedCall,
    invocations_by_time,
    pending_calls_in,
    read_calls,
)
from durable_adk.conversation.answers import answer_message, check_answers
from durable_adk.conversation.history import USER
from durable_adk.conversation.pending_calls import (
    CallStatus,
    PendingCall,
    TrackedCall,
    track_calls,
)
from durable_adk.conversation.pending_request import PendingRequest, pending_request
from durable_adk.conversation.sent_message import is_sent_as
from durable_adk.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    InvocationNotFoundError,
    NotFoundError,
    PermissionDeniedError,
)
from durable_adk.events.event import ANSWERED_BY, Event
from durable_adk.json_values import JsonModel, canonical
from durable_adk.server.caller import CurrentCaller, caller_of
from durable_adk.server.routes.acceptance import accepted, taken
from durable_adk.server.routes.body import RequestBody, as_json
from durable_adk.server.routes.invocation_lookup import Located, ThisInvocation, is_unusable
from durable_adk.server.routes.listing import (
    Limit,
    OfApp,
    OfSession,
    OfUser,
    position_of,
    token_of,
)
from durable_adk.server.routes.records import PREVIEW
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.log.storage import InvocationPosition
from durable_adk.sessions.records import OPEN
from durable_adk.wire.answer_token import AnswerToken
from durable_adk.wire.messages import InvocationRequest

router = APIRouter(tags=["pending"])
_ANSWERS = uuid.UUID("b7c1c0de-2f0e-4a55-9c0f-6c4f5d1f7a83")
_SCANNED = 500
"""Maximum number of invocations that one request searches for calls."""


class AnswerBody(RequestBody):
    """An answer to a pending call: `response`, or the decision of a confirmation."""

    response: dict[str, Any] | None = None
    confirmed: StrictBool | None = None
    payload: Any = None
    """For a confirmation: the values that the tool requests."""
    arguments: dict[str, Any] | None = None
    """Not supported: a call is approved with its original arguments."""

    def response_value(self) -> dict[str, Any]:
        """Return the response to the call.

        Raises:
            InvalidRequestError: There is none, or more than one, or it changes the call.
        """
        if self.arguments is not None:
            raise InvalidRequestError(
                "The arguments of a call cannot be changed; reject it, and tell the agent why."
            )
        if (self.response is None) == (self.confirmed is None):
            raise InvalidRequestError("Give either response or confirmed.")
        if self.response is not None:
            return self.response
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"confirmed": self.confirmed, **payload}


class CallAnswer(AnswerBody):
    """An answer, and the id of the answered call."""

    call_id: str


class PendingList(JsonModel):
    """A page of pending calls."""

    pending: list[PendingRequest] = Field(default_factory=list[PendingRequest])
    next_page_token: str | None = None


@router.get("/pending", response_model=PendingList)
async def list_pending(
    services: CurrentServices,
    caller: CurrentCaller,
    *,
    app_name: OfApp = None,
    user_id: OfUser = None,
    session_id: OfSession = None,
    limit: Limit = 50,
    page_token: str | None = None,
) -> Response:
    """Return the pending calls, those of the oldest pause first.

    A page contains all calls of its last invocation, so it may exceed `limit`. It may also have
    fewer calls, or none, although more pages follow.
    """
    where = InvocationFilter(user=caller.only(user_id), session=session_id)
    after, found = position_of(page_token), list[LocatedCall]()
    oldest = invocations_by_time(
        services.session_service,
        [app_name] if app_name else await services.app_names(),
        where,
        statuses=OPEN,
        beyond=after,
        oldest_first=True,
        size=limit + 1,
    )
    scanned = 0
    async with aclosing(oldest):
        async for key, record in oldest:
            if len(found) >= limit or scanned == _SCANNED:
                return as_json(_page(found, after))
            after = InvocationPosition.of(key, record)
            scanned += 1
            records = {record.invocation_id: record}
            found += await pending_calls_in(services.session_service, key, records)
    return as_json(_page(found, None))


def _page(found: Sequence[LocatedCall], after: InvocationPosition | None) -> PendingList:
    requests = [
        pending_request(one.key, one.call, message=one.message[:PREVIEW] or None) for one in found
    ]
    return PendingList(pending=requests, next_page_token=after and token_of(after))


@router.post("/invocations/{invocation_id}/answers", status_code=202)
async def answer(
    services: CurrentServices, caller: CurrentCaller, this: ThisInvocation, body: CallAnswer
) -> dict[str, bool]:
    """Answer a pending call, and return when a worker has accepted the answer.

    The same caller may repeat the same answer.
    """
    by = caller.answered_by
    try:
        found, times = await _call(services, this, body.call_id)
        if found.status is CallStatus.OPEN or not await _is_repeated(services, this, body, by):
            # Credentials are never recognized as repeated, see `_is_repeated`.
            named = found.call.kind != "credential"
            name = await _answer_name(services, this, body, by, times) if named else None
            await _send_answer(services, this, found, body, by, name=name)
    except AlreadyExistsError:
        if not await _is_repeated(services, this, body, by):
            raise
    return {"accepted": True}


def _verified(services: ServerServices, token: str) -> AnswerToken:
    """Return the call that a URL's token names.

    Raises:
        AuthenticationError: The token is unknown or has expired.
        NotFoundError: The server has no key for such tokens.
    """
    key = services.settings.answer_key
    if key is None:
        raise NotFoundError("This server takes no answers by URL: DURABLE_ADK_ANSWER_KEY is unset.")
    return AnswerToken.verified(token, key.get_secret_value(), now=time.time())


class _AnswerRoute(APIRoute):
    """Refuses an invalid token before FastAPI reads the body, which precedes all dependencies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See base class."""
        handle = super().get_route_handler()

        async def handle_known(request: Request) -> Response:
            await caller_of(request)
            _verified(request.app.state.services, request.path_params["token"])
            return await handle(request)

        return handle_known


_by_url = APIRouter(route_class=_AnswerRoute)


@_by_url.post("/answers/{token}", status_code=202)
async def answer_by_token(
    services: CurrentServices, token: str, body: AnswerBody
) -> dict[str, bool]:
    """Answer the pending call that a webhook's token names, once (S28).

    The token is the only authentication. Credentials are refused, because their user would be
    unknown.
    """
    named = _verified(services, token)
    record = await services.session_service.get_invocation(named.key, named.invocation_id)
    if record is None:
        raise InvocationNotFoundError("The invocation does not exist any more.")
    this = Located(named.key, record)
    found, _ = await _call(services, this, named.call_id)
    if found.status is not CallStatus.OPEN:
        raise AlreadyExistsError("The call does not wait any more.")
    if found.call.kind == "credential":
        raise PermissionDeniedError("A credential cannot be given by URL.")
    await _send_answer(services, this, found, body, {"answerUrl": named.message_id})
    return {"accepted": True}


router.include_router(_by_url)


async def _send_answer(
    services: ServerServices,
    this: Located,
    found: TrackedCall,
    body: AnswerBody,
    by: dict[str, str] | None,
    *,
    name: str | None = None,
) -> None:
    """Send an answer, and wait until a worker accepts it, or, for an update, until Temporal has it.

    Args:
        services: The server's services.
        this: The invocation that has made the call.
        found: The call.
        body: The answer.
        by: The sender of the answer.
        name: The id of the answer, see `_answer_name`; None: any.

    Raises:
        AlreadyExistsError: Another answer was accepted first.
        InvalidRequestError: `confirmed` was sent for a call that is no confirmation.
    """
    call = found.call
    if body.confirmed is not None and call.kind != "confirmation":
        raise InvalidRequestError(
            f"The call {call.call_id!r} of {call.name} waits for a result, which `confirmed` would "
            "become; give `response`."
        )
    sent = {"message": _message(call, body), "invocation_id": name, "create_session": False}
    request = InvocationRequest.parse({**this.key.ids(), **sent})
    try:
        client = services.invocations(this.key.app_name)
        feed = client.answer(request, answered_by=by)
        if name and this.record.status.closed:
            await taken(services, this.key, name, feed)  # it may wait for the session
        else:
            await accepted(this.key, feed)
    except InvalidRequestError:
        await _call(services, this, call.call_id)
        raise


def _message(call: PendingCall, body: AnswerBody) -> types.Content:
    part = types.FunctionResponse(id=call.call_id, name=call.name, response=body.response_value())
    return types.Content(role="user", parts=[types.Part(function_response=part)])


async def _answer_name(
    services: ServerServices,
    this: Located,
    body: CallAnswer,
    by: dict[str, str] | None,
    times: int,
) -> str:
    """Return the id of an answer; the same if the caller repeats the answer.

    An update starts an invocation with this id, so a repetition starts no second one even before
    the first is stored. An id is skipped if its update was refused or cancelled before it began,
    because Temporal would not start it again.

    Args:
        services: The server's services.
        this: The invocation that has made the call.
        body: The answer.
        by: The sender of the answer.
        times: Number of earlier answers to the call.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    key_parts = [
        *this.key,
        this.record.invocation_id,
        body.call_id,
        body.response_value(),
        by,
        times,
    ]
    while True:
        name = f"e-{uuid.uuid5(_ANSWERS, canonical(key_parts))}"
        if not this.record.status.closed or not await is_unusable(services, this.key, name):
            return name
        key_parts = [name]


async def _is_repeated(
    services: ServerServices, this: Located, body: CallAnswer, by: dict[str, str] | None
) -> bool:
    """Return whether the call's last answer was the same, and from the same caller.

    Credentials cannot be compared, because they are not stored.
    """
    stored = await read_calls(services.session_service, this.key, this.record.start_seq)
    events = [item.event for item in stored]
    found, positions = track_calls(events).get(body.call_id), _answers_to(body.call_id, events)
    if found is None or found.call.kind == "credential" or not positions:
        return False
    before, event = events[: positions[-1]], events[positions[-1]]
    if event.invocation_id != found.call.invocation_id:  # an update, identified by its id
        name = await _answer_name(services, this, body, by, len(positions) - 1)
        return event.invocation_id == name
    if (event.custom_metadata or {}).get(ANSWERED_BY) != by:
        return False
    return is_sent_as(event, answer_message(check_answers(before, _message(found.call, body))))


def _answers_to(call_id: str, events: Sequence[Event]) -> list[int]:
    """Return the positions of the user's answers to a call among events."""
    return [
        position
        for position, event in enumerate(events)
        if event.author == USER and any(one.id == call_id for one in event.get_function_responses())
    ]


async def _call(services: ServerServices, this: Located, call_id: str) -> tuple[TrackedCall, int]:
    """Return a call of an invocation that may be answered, and its number of earlier answers.

    Raises:
        NotFoundError: The invocation has made no such call.
        AlreadyExistsError: The call was answered.
    """
    stored = await read_calls(services.session_service, this.key, this.record.start_seq)
    events = [item.event for item in stored]
    found = track_calls(events).get(call_id)
    if found is None or found.call.invocation_id != this.record.invocation_id:
        raise NotFoundError(
            f"Invocation {this.record.invocation_id!r} has no call {call_id!r} to be answered."
        )
    if found.status in (CallStatus.ANSWERED, CallStatus.DECIDED) and not (
        found.call.kind == "long_running" and this.record.status.closed
    ):
        raise AlreadyExistsError(f"The call {call_id!r} is already answered.")
    return found, len(_answers_to(call_id, events))
