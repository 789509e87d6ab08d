"""Lists of invocations, newest first, over all apps and sessions that a caller may access."""

import base64
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from durable_adk.client.queries import InvocationFilter, invocations_by_time
from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import JsonModel, check_id
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import as_json
from durable_adk.server.routes.records import InvocationSummary, summarized
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.log.storage import InvocationPosition
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey

router = APIRouter(prefix="/invocations", tags=["invocations"])
MAX_PAGE = 200
_SCANNED = 2000
"""Maximum number of invocations that one request searches for a text."""

OfApp = Annotated[str | None, Query(description="Only this app.")]
OfUser = Annotated[str | None, Query(description="Only this user.")]
OfSession = Annotated[str | None, Query(description="Only this session.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


class InvocationList(JsonModel):
    """A page of invocations."""

    invocations: list[InvocationSummary] = Field(default_factory=list[InvocationSummary])
    next_page_token: str | None = None


@router.get("", response_model=InvocationList)
async def list_invocations(
    services: CurrentServices,
    caller: CurrentCaller,
    *,
    app_name: OfApp = None,
    user_id: OfUser = None,
    session_id: OfSession = None,
    status: Annotated[list[Status] | None, Query(description="Only these; repeatable.")] = None,
    query: Annotated[
        str | None, Query(description="Text of the message, or of an id.", max_length=200)
    ] = None,
    limit: Limit = 50,
    page_token: str | None = None,
) -> Response:
    """Return invocations, the newest first."""
    where = InvocationFilter(user=caller.only(user_id), session=session_id)
    before, found = position_of(page_token), list[InvocationSummary]()
    newest = invocations_by_time(
        services.session_service,
        [app_name] if app_name else await services.app_names(),
        where,
        statuses=status or (),
        beyond=before,
        size=limit + 1,
    )
    scanned = 0
    async with aclosing(newest):
        async for key, record in newest:
            if len(found) == limit or scanned == _SCANNED:
                return as_json(_list(found, before))
            before = InvocationPosition.of(key, record)
            scanned += 1
            summary = await _matching(services, key, record, query)
            found += [summary] if summary else []
    return as_json(_list(found, None))


@router.get("/counts")
async def count_invocations(
    services: CurrentServices, caller: CurrentCaller, app_name: OfApp = None, user_id: OfUser = None
) -> dict[str, int]:
    """Return the number of invocations by status."""
    user = caller.only(user_id)
    counts = {status.value: 0 for status in Status}
    for name in [app_name] if app_name else await services.app_names():
        found = await services.session_service.count_invocations(app_name=name, user_id=user)
        for status, number in found.items():
            counts[status.value] += number
    return counts


async def _matching(
    services: ServerServices, key: SessionKey, record: InvocationRecord, query: str | None
) -> InvocationSummary | None:
    """Return a summary that contains a text; None for an agent that runs as a tool."""
    if key.is_child:
        return None
    summary = await summarized(services.session_service, key, record)
    if query is None:
        return summary
    texts = (summary.message, record.invocation_id, *key, summary.status)
    wanted = query.casefold()
    return summary if any(wanted in (text or "").casefold() for text in texts) else None


def _list(found: Sequence[InvocationSummary], before: InvocationPosition | None) -> InvocationList:
    return InvocationList(invocations=list(found), next_page_token=before and token_of(before))


def token_of(before: InvocationPosition) -> str:
    """Return the token of the page after a position."""
    return base64.urlsafe_b64encode(json.dumps(before).encode()).decode()


def position_of(token: str | None) -> InvocationPosition | None:
    """Return the position of a page token; None for the first page.

    Raises:
        InvalidRequestError: It is not a page token.
    """
    if not token:
        return None
    try:
        time, *names = json.loads(base64.urlsafe_b64decode(token.encode()))
        user, session, invocation = [check_id(str(name), "page_token") for name in names]
        return InvocationPosition(float(time), user, session, invocation)
    except (ValueError, TypeError, OverflowError, RecursionError, InvalidRequestError):
        raise InvalidRequestError("page_token is not one that this list has given.") from None
