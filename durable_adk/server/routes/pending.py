"""Routes of pending calls and their answers."""

import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import Field, StrictBool
from starlette.responses import Response

from durable_adk.client.answers import SentAnswer, find_call
from durable_adk.client.queries import (
    InvocationFilter,
    LocatedCall,
    invocations_by_time,
    pending_calls_in,
)
from durable_adk.conversation.answers import response_message
from durable_adk.conversation.pending_calls import CallStatus, PendingCall
from durable_adk.conversation.pending_request import PendingRequest, pending_request
from durable_adk.errors import (
    AlreadyAnsweredError,
    AlreadyExistsError,
    InvalidRequestError,
    InvocationNotFoundError,
    NotFoundError,
    PermissionDeniedError,
)
from durable_adk.json_values import JsonModel
from durable_adk.server.caller import CurrentCaller, caller_of
from durable_adk.server.routes.acceptance import accepted, taken
from durable_adk.server.routes.body import RequestBody, as_json
from durable_adk.server.routes.invocation_lookup import ThisInvocation
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
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.answer_token import AnswerToken
from durable_adk.wire.messages import InvocationRequest

router = APIRouter(tags=["pending"])
_SCANNED = 500
"""Maximum number of invocations that one request searches for calls."""
_NOT_WAITING = "The call does not wait any more."


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
    found = await find_call(services.session_service, *this, body.call_id)
    once = found.call.kind != "credential"  # no id may be derived from a secret
    sent = _sent(this.key, found.call, body)
    await _give(services, replace(sent, answered_by=caller.answered_by, once=once))
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
    found = await find_call(services.session_service, named.key, record, named.call_id)
    if found.status is not CallStatus.OPEN:
        raise AlreadyExistsError(_NOT_WAITING)
    if found.call.kind == "credential":
        raise PermissionDeniedError("A credential cannot be given by URL.")
    sent = _sent(named.key, found.call, body)
    await _give(services, replace(sent, answered_by={"answerUrl": named.message_id}))
    return {"accepted": True}


router.include_router(_by_url)


def _sent(key: SessionKey, call: PendingCall, body: AnswerBody) -> SentAnswer:
    """Return a body as an answer to a call.

    Raises:
        InvalidRequestError: `confirmed` was sent for a call that is no confirmation.
    """
    if body.confirmed is not None and call.kind != "confirmation":
        raise InvalidRequestError(
            f"The call {call.call_id!r} of {call.name} waits for a result, which `confirmed` would "
            "become; give `response`."
        )
    message = response_message([(call, body.response_value())])
    request = {**key.ids(), "message": message, "create_session": False}
    return SentAnswer(request=InvocationRequest.parse(request), asked_by=call.invocation_id)


async def _give(services: ServerServices, sent: SentAnswer) -> None:
    """Send an answer, and wait until a worker accepts it, or, for an update, until Temporal has it.

    Raises:
        AlreadyExistsError: The call has another answer, or a URL was used before.
    """
    key = sent.key
    client = services.invocations(key.app_name)
    try:
        judged = await client.judge(sent)
        if not judged.starts:
            await accepted(client, judged)
        elif sent.once:  # it may wait for the session
            await taken(services, key, judged.starts, client.give(judged))
        else:
            raise AlreadyExistsError(_NOT_WAITING)
    except AlreadyAnsweredError as error:
        raise AlreadyExistsError(error.message) from error
