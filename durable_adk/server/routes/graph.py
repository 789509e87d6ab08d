"""The route that returns an app's graph with the places of its nodes, to be drawn."""

from fastapi import APIRouter
from starlette.responses import Response

from durable_adk.apps.graph_layout import GraphLayout, graph_layout
from durable_adk.errors import UnknownAppError
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import as_json
from durable_adk.server.services import CurrentServices

router = APIRouter(prefix="/apps/{app_name}", tags=["apps"])


@router.get("/graph", response_model=GraphLayout | None)
async def get_graph(services: CurrentServices, caller: CurrentCaller, app_name: str) -> Response:
    """Return an app's graph as drawn; null if it has none, or the server does not have its code.

    An app that is not known yet, because its first session is being created, has none.
    """
    await services.until_loaded()
    try:
        found = services.apps.get(await services.check_app(app_name, caller))
    except UnknownAppError:
        found = None
    if found is None or found.root_agent.graph is None:
        return Response("null", media_type="application/json")
    return as_json(graph_layout(found.root_agent))
