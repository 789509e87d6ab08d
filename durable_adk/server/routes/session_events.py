"""Routes of a whole session: what happens in it, and going back in it."""

from fastapi import APIRouter
from starlette.responses import Response

from durable_adk.client.rewind import Rewinding
from durable_adk.server.routes.body import From, InSession, RequestBody
from durable_adk.server.services import CurrentServices
from durable_adk.server.streams import ITEMS, EventStream, Reading

_SESSION = "/apps/{app_name}/users/{user_id}/sessions/{session_id}"
router = APIRouter(prefix=_SESSION, tags=["sessions"])


class RewindTarget(RequestBody):
    """Where to rewind a session to."""

    invocation_id: str
    """Before its first event."""


@router.get("/events", response_class=EventStream)
async def get_session_events(services: CurrentServices, key: InSession, after: From) -> Response:
    """Stream what happens in a session, in all its invocations; without an end."""
    reading = Reading(services.feed.session(key, after))
    await reading.first()
    return EventStream(services, reading, ITEMS)


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
