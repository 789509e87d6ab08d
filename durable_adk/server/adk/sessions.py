"""ADK's routes of sessions."""

import uuid
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query
from google.genai import types
from starlette.responses import Response

from durable_adk.conversation.client_requests import CONTROL_FUNCTIONS
from durable_adk.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    SessionNotFoundError,
    StaleSessionError,
)
from durable_adk.events.event import Event, runtime_marks
from durable_adk.events.event_actions import EventActions
from durable_adk.json_values import canonical, check_json
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import InSession, RequestBody, as_json, session_as_json
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.state import USER_PREFIX, without_temp
from durable_adk.wire.messages import check_parts, check_size

_EVALUATIONS = ("adk-eval-session-", "___eval___session___")
"""Prefixes of the ids of sessions that ADK's evaluations create; lists omit them."""
_RESERVED = CONTROL_FUNCTIONS | {"adk_request_input"}
_MOST = 1_000
"""Maximum number of sessions in a page."""
_MAX_ATTEMPTS = 5
"""Maximum attempts to change the state while other writers store events."""

router = APIRouter(tags=["sessions"])
_SESSIONS = "/apps/{app_name}/users/{user_id}/sessions"
_ONE = _SESSIONS + "/{session_id}"


class NewSession(RequestBody):
    """A session to create."""

    session_id: str | None = None
    """The session's id; None: a generated one."""
    state: dict[str, Any] | None = None
    events: list[Event] | None = None
    """Events of a conversation to restore."""
    options: dict[str, Any] | None = None
    """Not supported; ADK passes these to its session service."""


class SessionPatch(RequestBody):
    """Changes of a session's state."""

    state_delta: dict[str, Any]


@router.get(_ONE, response_model=Session)
async def get_session(services: CurrentServices, key: InSession) -> Response:
    """Return a session with its events."""
    return await session_as_json(await existing_session(services, key))


@router.get(_SESSIONS, response_model=list[Session])
async def list_sessions(
    services: CurrentServices,
    app_name: str,
    user_id: str,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST,
    page_token: str | None = None,
) -> Response:
    """Return a page of a user's sessions without their events, the latest update first.

    The header `Next-Page-Token` contains the `page_token` of the next page, if there is one.
    """
    found = await services.session_service.list_sessions(
        app_name=app_name,
        user_id=user_id,
        limit=limit,
        page_token=page_token,
        newest_first=True,
        max_size=services.settings.max_list_bytes,
    )
    response = as_json([one for one in found.sessions if not one.id.startswith(_EVALUATIONS)])
    if found.next_page_token is not None:
        response.headers["Next-Page-Token"] = found.next_page_token
    return response


@router.post(_SESSIONS, response_model=Session)
async def create_session(
    services: CurrentServices,
    caller: CurrentCaller,
    app_name: str,
    user_id: str,
    body: NewSession | None = None,
) -> Response:
    """Create a session, optionally with the events of an earlier conversation."""
    await services.check_app(app_name, caller)
    await services.check_room(app_name, caller)
    new = body or NewSession()
    if new.options:
        raise InvalidRequestError(
            "Session options are not supported by the configured session service."
        )
    for index, event in enumerate(new.events or ()):
        _check_restorable(index, event)
        check_size(event.to_json(), f"events.{index}")
    session = await _create(services, app_name, user_id, new.session_id, new.state)
    for event in new.events or ():
        await services.session_service.append_event(session, event)
    return await session_as_json(session)


@router.post(_ONE, response_model=Session, deprecated=True)
async def create_session_with_id(
    services: CurrentServices,
    caller: CurrentCaller,
    key: InSession,
    state: dict[str, Any] | None = None,
) -> Response:
    """Create a session with the given id."""
    await services.check_app(key.app_name, caller)
    await services.check_room(key.app_name, caller)
    return as_json(await _create(services, *key, state))


@router.delete(_ONE)
async def delete_session(services: CurrentServices, key: InSession) -> None:
    """Delete a session, if there is one."""
    await services.session_service.delete_session(**key._asdict())


@router.patch(_ONE, response_model=Session)
async def update_session(
    services: CurrentServices, caller: CurrentCaller, key: InSession, body: SessionPatch
) -> Response:
    """Change a session's state without running an agent."""
    await services.check_room(key.app_name, caller)
    event = Event(
        invocation_id=f"p-{uuid.uuid4()}",
        author="user",
        actions=EventActions(state_delta=without_temp(body.state_delta)),
    )
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(StaleSessionError):
            return await session_as_json(await _appended(services, key, event))
    return await session_as_json(await _appended(services, key, event))


async def existing_session(services: ServerServices, key: SessionKey) -> Session:
    """Return a session with its events.

    Raises:
        SessionNotFoundError: The session does not exist.
    """
    session = await services.session_service.get_session(
        **key._asdict(), max_size=services.settings.max_session_bytes
    )
    if session is None:
        raise SessionNotFoundError("Session not found")
    return session


async def _appended(services: ServerServices, key: SessionKey, event: Event) -> Session:
    session = await existing_session(services, key)
    check_size(canonical(session.state | event.actions.state_delta), "The session's state")
    await services.session_service.append_event(session, event)
    return session


async def _create(
    services: ServerServices,
    app_name: str,
    user_id: str,
    session_id: str | None,
    state: dict[str, Any] | None,
) -> Session:
    if state:
        own = await services.session_service.get_user_state(app_name=app_name, user_id=user_id)
        shared = {f"{USER_PREFIX}{name}": value for name, value in own.items()}
        check_size(canonical(shared | state), "The session's state")
    try:
        return await services.session_service.create_session(
            app_name=app_name, user_id=user_id, session_id=session_id, state=state
        )
    except AlreadyExistsError:
        raise AlreadyExistsError(f"Session already exists: {session_id}") from None


def _check_restorable(index: int, event: Event) -> None:
    """Refuse an event that could be mistaken for a request of the runtime."""
    names = {call.name for call in event.get_function_calls()}
    names |= {response.name for response in event.get_function_responses()}
    wrong = None
    if event.long_running_tool_ids:
        wrong = "long-running tool IDs"
    elif event.actions != EventActions():
        wrong = "event actions"
    elif names & _RESERVED:
        wrong = "ADK protocol function calls"
    elif marks := runtime_marks(event.custom_metadata):
        wrong = f"metadata {marks[0]}"
    elif "\0" in event.id + event.invocation_id:
        wrong = "NUL characters in ids"
    if wrong:
        raise InvalidRequestError(f"Session initialization event {index} cannot include {wrong}.")
    check_json(event.custom_metadata, f"events.{index}.customMetadata")
    check_parts(event.content or types.Content(), f"events.{index}.content")
