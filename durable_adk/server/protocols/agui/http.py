"""The route of AG-UI 1.0: front ends of others, such as CopilotKit, over durable invocations.

A thread is a session and a run an invocation, so the same request again follows the run that it has
started, on any server. A run that waits for somebody ends with interrupts. The run that resumes it
answers them, and shows the same invocation from there on.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    RunAgentInput,
    RunStartedEvent,
    StateSnapshotEvent,
)
from fastapi import APIRouter
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from durable_adk.client.queries import pending_calls_of
from durable_adk.errors import DurableAdkError, SessionNotFoundError, class_name
from durable_adk.json_values import check_id
from durable_adk.server.caller import Caller, CurrentCaller
from durable_adk.server.feed import entries_of
from durable_adk.server.protocols.agui.events import RunRenderer, shown_state
from durable_adk.server.protocols.agui.requests import request_of
from durable_adk.server.routes.listing import OfUser
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.server.streams import EventStream, Reading, Renderer, sent
from durable_adk.sessions.session import SessionKey, checked_key

router = APIRouter(tags=["AG-UI"])
ANONYMOUS = "user"
"""The user of a request that names none, to a server without authentication; as of ADK's page."""


@router.post("/agui/{app_name}", response_class=EventStream)
async def run_agent(
    services: CurrentServices,
    caller: CurrentCaller,
    app_name: str,
    body: RunAgentInput,
    user_id: OfUser = None,
) -> Response:
    """Run an agent for a front end that speaks AG-UI.

    It goes on if the front end disconnects; the same request again follows it from its start.
    """
    user = user_id or caller.user_id or ANONYMOUS
    key = checked_key(services.check_app(app_name), user, body.thread_id)
    check_id(body.run_id, "runId")
    return EventStream(services, Reading(_events(services, caller, key, body)), _RENDERER)


async def _events(
    services: ServerServices, caller: Caller, key: SessionKey, body: RunAgentInput
) -> AsyncGenerator[BaseEvent]:
    """Yield all events of a run; what fails is its last one."""
    sessions, known = services.session_service, services.apps.get(key.app_name)
    render = RunRenderer(
        thread_id=body.thread_id,
        run_id=body.run_id,
        root=known.root_agent.name if known else None,
        tools=frozenset(tool.name for tool in body.tools or ()),
    )
    yield RunStartedEvent(
        thread_id=body.thread_id, run_id=body.run_id, protocol_version=PROTOCOL_VERSION
    )
    try:
        state = await _state(services, key)
        yield StateSnapshotEvent(snapshot=shown_state(state))
        render.earlier = await sessions.read_events(key, after=0)
        request = await request_of(sessions, key, body, state)
        client = services.invocations(key.app_name, creates_sessions=True)
        client = replace(client, derives_state=True)  # the request's is compared with the session's
        entries = entries_of(key, client.send(request, answered_by=caller.answered_by))
        async with aclosing(entries):
            async for entry in entries:
                for event in render.rendered(entry.item):
                    yield event
        yield StateSnapshotEvent(snapshot=shown_state(await _state(services, key)))
        name = render.status.invocation_id if render.status else body.run_id
        waiting = await pending_calls_of(sessions, key, name)
    except DurableAdkError as error:
        yield render.failed(class_name(error), error.message)
        return
    for event in render.finished(waiting):
        yield event


async def _state(services: ServerServices, key: SessionKey) -> dict[str, object]:
    """Return the state of a session; {} if it is missing, as the run creates it then."""
    try:
        _, state = await services.session_service.read_state(key)
    except SessionNotFoundError:
        return {}
    return state


def _sent(event: BaseEvent) -> Iterable[ServerSentEvent]:
    yield sent(event.model_dump_json(by_alias=True), position=None)


def _failed(kind: str, message: str) -> ServerSentEvent:
    return next(iter(_sent(RunRenderer(thread_id="", run_id="").failed(kind, message))))


_RENDERER = Renderer[BaseEvent](entry=_sent, error=_failed)
