"""Finds the invocation that a request's path and query name."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Depends
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import (
    AmbiguousInvocationError,
    InvocationNotFoundError,
    TemporalUnavailableError,
)
from durable_adk.json_values import check_id
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.listing import OfApp, OfSession, OfUser
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey, checked_key
from durable_adk.wire.messages import workflow_id


@dataclass(frozen=True)
class InvocationQuery:
    """The invocation that a request names; None matches any app, user or session."""

    invocation_id: str
    app_name: str | None
    user_id: str | None
    session_id: str | None


async def _query(
    invocation_id: str,
    app_name: OfApp = None,
    user_id: OfUser = None,
    session_id: OfSession = None,
) -> InvocationQuery:
    # A coroutine function, because FastAPI would create the dataclass itself in a thread.
    return InvocationQuery(invocation_id, app_name, user_id, session_id)


_Query = Annotated[InvocationQuery, Depends(_query)]


class Located(NamedTuple):
    """The requested invocation and its session."""

    key: SessionKey
    record: InvocationRecord


async def _located(services: CurrentServices, caller: CurrentCaller, query: _Query) -> Located:
    """Find an invocation that the caller may access, in the sessions that match the query.

    Clients choose ids, so several sessions may have the same one. The server never guesses, because
    the request may be an approval. The invocation of an agent used as a tool needs its session's
    id.

    Raises:
        InvocationNotFoundError: It does not exist, or is another user's.
        AmbiguousInvocationError: Several sessions have it.
    """
    wanted = (query.app_name, query.user_id, query.session_id)
    name = check_id(query.invocation_id, "invocation_id")
    found = [
        Located(key, record)
        for key in await services.session_service.sessions_with(name)
        if caller.may_access(key.user_id)
        and (query.session_id is not None or not key.is_child)
        and all(requested in (None, own) for requested, own in zip(wanted, key, strict=True))
        and (record := await services.session_service.get_invocation(key, name)) is not None
    ]
    if not found:
        raise InvocationNotFoundError(f"There is no invocation {name!r}.")
    if len(found) > 1:
        raise AmbiguousInvocationError(
            f"Several sessions have an invocation {name!r}; pass app_name, user_id and session_id."
        )
    return found[0]


ThisInvocation = Annotated[Located, Depends(_located)]
"""Parameter type: the invocation in the path."""


class Waiting(NamedTuple):
    """A message in Temporal whose invocation is not in the store yet."""

    key: SessionKey
    invocation_id: str


async def _located_or_waiting(
    services: CurrentServices, caller: CurrentCaller, query: _Query
) -> Located | Waiting:
    """Find an invocation as `_located` does, or a message that waits for its session.

    The store does not have such a message, so the query must name the session.

    Raises:
        InvocationNotFoundError: It does not exist, or is another user's.
        AmbiguousInvocationError: Several sessions have it.
        TemporalUnavailableError: Temporal does not respond.
    """
    try:
        return await _located(services, caller, query)
    except InvocationNotFoundError:
        if query.app_name is None or query.user_id is None or query.session_id is None:
            raise
        key = checked_key(query.app_name, query.user_id, query.session_id)
        name = query.invocation_id.strip()
        if not caller.may_access(key.user_id) or not (
            await recipient(services, key, name) or await _is_open(services, key, name)
        ):
            raise
        return Waiting(key, name)


ThisMessage = Annotated[Located | Waiting, Depends(_located_or_waiting)]
"""Parameter type: the invocation in the path, which may not have begun."""


async def recipient(
    services: ServerServices, key: SessionKey, name: str
) -> InvocationRecord | None:
    """Return the invocation that has accepted a message of this id, or None."""
    event = await services.session_service.delivered_event(key, name)
    return event and await services.session_service.get_invocation(key, event.invocation_id)


async def _is_open(services: ServerServices, key: SessionKey, name: str) -> bool:
    """Return whether Temporal has a message that is still open.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    try:
        found = await services.client.get_workflow_handle(workflow_id(key, name)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    return found.status is WorkflowExecutionStatus.RUNNING
