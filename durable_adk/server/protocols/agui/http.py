"""The route of AG-UI 1.0: durable invocations for front ends such as CopilotKit.

A thread is a session and a run an invocation, so repeating a request follows the run that it has
started, on any server. A run that waits for an answer ends with interrupts. The run that resumes it
answers them, and shows the same invocation from there on.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunStartedEvent,
    StateSnapshotEvent,
    ToolMessage,
)
from fastapi import APIRouter
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from durable_adk.client.feed import paged
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.client.queries import pending_calls_of
from durable_adk.conversation.history import USER
from durable_adk.errors import (
    DurableAdkError,
    PayloadTooLargeError,
    SessionNotFoundError,
    class_name,
)
from durable_adk.json_values import check_id
from durable_adk.server.caller import Caller, CurrentCaller
from durable_adk.server.feed import EventItem, entries_of
from durable_adk.server.protocols.agui.events import RunRenderer, shown_state
from durable_adk.server.protocols.agui.messages import result_ids_of
from durable_adk.server.protocols.agui.requests import request_of
from durable_adk.server.routes.body import CheckedBody
from durable_adk.server.routes.listing import OfUser
from durable_adk.server.routes.request_headers import Starting
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.server.streams import EventStream, Reading, Renderer, sent
from durable_adk.sessions.session import SessionKey, checked_key
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import USER_PREFIX

router = APIRouter(tags=["AG-UI"])
ANONYMOUS = "user"
"""The user of an unauthenticated request without a user id; the same as for ADK's page."""
_FEW = 16
"""Number of events to read at once; usually the second one is the one searched for."""


class RunAgentBody(CheckedBody, RunAgentInput):
    """AG-UI's request."""


@router.post("/agui/{app_name}", response_class=EventStream)
async def run_agent(
    services: CurrentServices,
    caller: CurrentCaller,
    app_name: str,
    body: RunAgentBody,
    *,
    headers: Starting,
    user_id: OfUser = None,
) -> Response:
    """Run an agent for an AG-UI front end.

    It continues if the front end disconnects; repeating the request follows it from its start.
    """
    user = user_id or caller.user_id or ANONYMOUS
    await services.check_app(app_name, caller)
    if not (body.resume or (body.messages and isinstance(body.messages[-1], ToolMessage))):
        await services.check_room(app_name, caller)
    key = checked_key(app_name, user, body.thread_id)
    name = headers.invocation_id(key) or check_id(body.run_id, "runId")
    start = {"invocation_id": name, "when_busy": headers.busy()}
    return EventStream(services, Reading(_events(services, caller, key, body, start)), _RENDERER)


async def _events(
    services: ServerServices,
    caller: Caller,
    key: SessionKey,
    body: RunAgentInput,
    start: dict[str, Any],
) -> AsyncGenerator[BaseEvent]:
    """Yield all events of a run; an error becomes the last one.

    Args:
        services: The server's services.
        caller: The sender of the request.
        key: The session.
        body: The request.
        start: Fields of the invocation's request that are not in the body.
    """
    sessions = services.session_service
    render = RunRenderer(
        thread_id=body.thread_id,
        run_id=body.run_id,
        tools=frozenset(tool.name for tool in body.tools or ()),
        result_ids=result_ids_of(body.messages),
    )
    yield RunStartedEvent(
        thread_id=body.thread_id, run_id=body.run_id, protocol_version=PROTOCOL_VERSION
    )
    try:
        render.revision, state = await _state(sessions, key)
        render.root = await _root(services, key)
        yield StateSnapshotEvent(snapshot=shown_state(state))
        client = _client(services, key)
        request = await request_of(client, key, body, state, name=start["invocation_id"])
        request = request.model_copy(update=start)
        entries = entries_of(key, client.send(request, answered_by=caller.answered_by))
        async with aclosing(entries):
            async for entry in entries:
                if render.first is None and isinstance(entry.item, EventItem):
                    render.resumes(await _long_running_before(sessions, key, entry.item))
                for event in await _all_whole(services, key, render, render.rendered(entry.item)):
                    yield event
        _, state = await _state(sessions, key)
        yield StateSnapshotEvent(snapshot=shown_state(state))
        name = render.status.invocation_id if render.status else start["invocation_id"]
        waiting = await pending_calls_of(sessions, key, name)
        ends = await _all_whole(services, key, render, render.finished(waiting))
    except DurableAdkError as error:
        yield render.failed(class_name(error), error.message)
        return
    for event in ends:
        yield event


def _client(services: ServerServices, key: SessionKey) -> InvocationClient:
    client = services.invocations(key.app_name, waits_for_worker=True)
    return replace(client, derives_state=True)  # compare the request's state with the session's


async def _state(sessions: SessionLog, key: SessionKey) -> tuple[int, dict[str, Any]]:
    """Return revision and state of a session; for a missing one, those of a new session."""
    try:
        return await sessions.read_state(key)
    except SessionNotFoundError:
        app, user, _ = key
        own = await sessions.get_user_state(app_name=app, user_id=user)
        return 0, {f"{USER_PREFIX}{name}": value for name, value in own.items()}


async def _root(services: ServerServices, key: SessionKey) -> str | None:
    """Return an app's root agent; without a description of the app, the session's first agent."""
    if known := services.apps.get(key.app_name):
        return known.root_agent.name
    after = 0
    while found := await services.session_service.read_events(key, after=after, limit=_FEW):
        for stored in found:
            after = stored.seq
            if stored.event.author != USER:
                return stored.event.author
    return None


async def _long_running_before(sessions: SessionLog, key: SessionKey, item: EventItem) -> set[str]:
    """Return the ids of the long-running calls that an event's invocation made before it."""
    record = await sessions.get_invocation(key, item.event.invocation_id)
    first = record.start_seq if record else item.seq
    if first >= item.seq:
        return set()
    read, found = partial(sessions.read_page, key, upto=item.seq - 1), set[str]()
    async with aclosing(paged(read, first - 1)) as stored:
        async for one in stored:
            if one.event.invocation_id == item.event.invocation_id:
                found |= one.event.long_running_tool_ids or set()
    return found


async def _all_whole(
    services: ServerServices, key: SessionKey, render: RunRenderer, events: Iterable[BaseEvent]
) -> list[BaseEvent]:
    found = [await _whole(services, key, render, event) for event in events]
    return [event for event in found if event is not None]


async def _whole(
    services: ServerServices, key: SessionKey, render: RunRenderer, event: BaseEvent
) -> BaseEvent | None:
    """Return an event, adding earlier messages to a snapshot.

    A session that is too large has no snapshot: the front end keeps the messages that it has.
    """
    if not isinstance(event, MessagesSnapshotEvent):
        return event
    last = render.revision if render.first is None else render.first - 1
    size = services.settings.max_session_bytes
    try:
        read = services.session_service.read_events
        stored = await read(key, upto=last, max_size=size) if last else []
    except PayloadTooLargeError:
        return None
    earlier = render.messages([one.event for one in stored])
    return MessagesSnapshotEvent(messages=[*earlier, *event.messages])


def _sent(event: BaseEvent) -> Iterable[ServerSentEvent]:
    yield sent(event.model_dump_json(by_alias=True), position=None)


def _failed(kind: str, message: str, _: str | None) -> ServerSentEvent:
    return next(iter(_sent(RunRenderer(thread_id="", run_id="").failed(kind, message))))


_RENDERER = Renderer[BaseEvent](entry=_sent, error=_failed)
