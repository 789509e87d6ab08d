"""The route that returns the sender of a request, for web pages."""

from fastapi import APIRouter
from starlette.responses import Response

from durable_adk.json_values import JsonModel
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import as_json

router = APIRouter(tags=["information"])


class Sender(JsonModel):
    """The sender of a request, and its permissions."""

    user_id: str | None = None
    """The user whose sessions the sender may access; None without authentication."""
    is_operator: bool
    """Whether the sender may act for all users."""


@router.get("/caller", response_model=Sender)
async def get_caller(caller: CurrentCaller) -> Response:
    """Return the user that the request is authenticated as."""
    return as_json(Sender(user_id=caller.user_id, is_operator=caller.is_operator))
