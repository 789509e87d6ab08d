"""Routes of a whole session: its events, its waiting messages, and rewinding it."""

from fastapi import APIRouter
from starlette.responses import Response

from durable_adk.client.rewind import Rewinding
from durable_adk.server.routes.body import From, InSession, RequestBody, as_json
from durable_adk.server.routes.records import InvocationSummary, queued
from durable_adk.server.services import CurrentServices
from durable_adk.server.streams import ITEMS, EventStream, Reading
from durable_adk.sessions.records import QueuePosition

_SESSION = "/apps/{app_name}/users/{user_id}/sessions/{session_id}"
_MAX_QUEUED = 100
router = APIRouter(prefix=_SESSION, tags=["sessions"])


class RewindTarget(RequestBody):
    """The target of a rewind."""

    invocation_id: str
    """The session is rewound to before this invocation's first event."""


@router.get("/events", response_class=EventStream)
async def get_session_events(services: CurrentServices, key: InSession, after: From) -> Response:
    """Stream a session's events and statuses, of all its invocations, without an end."""
    reading = Reading(services.feed.session(key, after))
    await reading.first()
    return EventStream(services, reading, ITEMS)


@router.get("/queue", response_model=list[InvocationSummary])
async def get_queue(services: CurrentServices, key: InSession) -> Response:
    """Return the messages that wait for the session, in order.

    At most 100, and only messages that a worker has already seen. A message whose workflow was
    terminated may remain for a while.
    """
    sessions = services.session_service
    tickets = await sessions.waiting(key, limit=_MAX_QUEUED)
    return as_json(
        [
            queued(InvocationSummary, key, one.invocation_id)
            for one in tickets
            # Invocations that resume or close also wait in the queue, before messages.
            if one.position is QueuePosition.LAST
            or await sessions.get_invocation(key, one.invocation_id) is None
        ]
    )


@router.post("/rewind")
async def rewind(services: CurrentServices, key: InSession, body: RewindTarget) -> dict[str, bool]:
    """Rewind a session to before an invocation; nothing is deleted."""
    rewinding = Rewinding(
        sessions=services.session_service,
        backend=services.invocations(key.app_name).backend,
        artifacts=services.artifact_service,
    )
    await rewinding.rewind(key, body.invocation_id)
    return {"rewound": True}
