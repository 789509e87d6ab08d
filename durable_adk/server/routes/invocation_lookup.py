"""Finds the invocation that the path and the query of a request name."""

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
    """The invocation that a request names; None: of any app, user or session."""

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
    # A coroutine function: FastAPI would make the dataclass itself in a thread.
    return InvocationQuery(invocation_id, app_name, user_id, session_id)


_Query = Annotated[InvocationQuery, Depends(_query)]


class Located(NamedTuple):
    """An invocation that was asked for by its id, and the session that has it."""

    key: SessionKey
    record: InvocationRecord


async def _located(services: CurrentServices, caller: CurrentCaller, query: _Query) -> Located:
    """Find an invocation that the caller may reach, in the sessions that the query names.

    Clients choose ids, so several sessions may have the same one. None of them is guessed: what
    follows may be an approval. An agent that ran as a tool is found by its session only.

    Raises:
        InvocationNotFoundError: There is none, or it is another user's.
        AmbiguousInvocationError: Several sessions have it.
    """
    wanted = (query.app_name, query.user_id, query.session_id)
    name = check_id(query.invocation_id, "invocation_id")
    found = [
        Located(key, record)
        for key in await services.session_service.sessions_with(name)
        if caller.may_reach(key.user_id)
        and (query.session_id is not None or not key.is_child)
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


ThisInvocation = Annotated[Located, Depends(_located)]
"""The type of an argument that is to be the invocation of the path."""


class Waiting(NamedTuple):
    """A message that Temporal has, and that has no invocation of its own in the store, yet."""

    key: SessionKey
    invocation_id: str


async def _located_or_waiting(
    services: CurrentServices, caller: CurrentCaller, query: _Query
) -> Located | Waiting:
    """Find an invocation as `_located` does, or a message that waits for its session.

    The store has nothing of the latter, so the query has to name the session.

    Raises:
        InvocationNotFoundError: There is none, or it is another user's.
        AmbiguousInvocationError: Several sessions have it.
        TemporalUnavailableError: Temporal does not answer.
    """
    try:
        return await _located(services, caller, query)
    except InvocationNotFoundError:
        if query.app_name is None or query.user_id is None or query.session_id is None:
            raise
        key = checked_key(query.app_name, query.user_id, query.session_id)
        name = query.invocation_id.strip()
        if not caller.may_reach(key.user_id) or not (
            await recipient(services, key, name) or await _is_open(services, key, name)
        ):
            raise
        return Waiting(key, name)


ThisMessage = Annotated[Located | Waiting, Depends(_located_or_waiting)]
"""The type of an argument that is to be the invocation of the path, which may not have begun."""


async def recipient(
    services: ServerServices, key: SessionKey, name: str
) -> InvocationRecord | None:
    """Return the invocation that has received a message as one of its own; None: there is none."""
    event = await services.session_service.delivered_event(key, name)
    return event and await services.session_service.get_invocation(key, event.invocation_id)


async def is_spent(services: ServerServices, key: SessionKey, name: str) -> bool:
    """Whether a message was refused or cancelled before it began, so that its id is of no use.

    Raises:
        TemporalUnavailableError: Temporal does not say so.
    """
    status = await _status(services, key, name)  # first: it is stored before its workflow ends
    if status in (None, WorkflowExecutionStatus.RUNNING):
        return False
    return await services.session_service.get_invocation(key, name) is None


async def _is_open(services: ServerServices, key: SessionKey, name: str) -> bool:
    """Whether Temporal has a message that is not yet done with.

    Raises:
        TemporalUnavailableError: It does not say so.
    """
    return await _status(services, key, name) is WorkflowExecutionStatus.RUNNING


async def _status(
    services: ServerServices, key: SessionKey, name: str
) -> WorkflowExecutionStatus | None:
    """Return the status of a message's workflow; None: there is none.

    Raises:
        TemporalUnavailableError: Temporal does not answer.
    """
    try:
        found = await services.client.get_workflow_handle(workflow_id(key, name)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    return found.status
