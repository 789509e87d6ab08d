"""The routes of A2A: each app's agent card, JSON-RPC over HTTP, and the HTTP+JSON binding."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from a2a.compat.v0_3 import conversions, types as v03
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.routes.rest_dispatcher import RestDispatcher
from a2a.types import AgentCard
from fastapi import APIRouter, Request
from sse_starlette import EventSourceResponse
from starlette.responses import JSONResponse, Response

from durable_adk.errors import CallerError
from durable_adk.json_values import check_json
from durable_adk.server.caller import Caller, CurrentCaller
from durable_adk.server.protocols.a2a.card import card_of
from durable_adk.server.protocols.a2a.operations import TaskHandler
from durable_adk.server.routes.errors import BAD_REQUEST, RETRY_AFTER, UNAVAILABLE
from durable_adk.server.routes.request_headers import WhenBusyHeader
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.wire.messages import WhenBusy, parsed

router = APIRouter(tags=["a2a"])
_APP = "/a2a/{app_name}"
_CARD = "/.well-known/agent-card.json"
_INVALID, _INVALID_PARAMS = -32600, -32602
"""JSON-RPC's codes for an invalid request, and for invalid parameters."""
_QUOTED, _LONG = 300, 4_000
"""Maximum characters of a problem, which may quote the request; maximum bytes of an error
response."""
MAX_PING_SECONDS = 3.0
"""Seconds between comments in a stream: the official client gives up after 5 s without data."""
_PUSH_CONFIG = "/tasks/{id}/pushNotificationConfigs/{push_id}"
_V03: dict[str, tuple[Any, Callable[..., object] | None]] = {
    "message/send": (v03.SendMessageRequest, conversions.to_core_send_message_request),
    "message/stream": (v03.SendStreamingMessageRequest, conversions.to_core_send_message_request),
    "tasks/get": (v03.GetTaskRequest, conversions.to_core_get_task_request),
    "tasks/cancel": (v03.CancelTaskRequest, None),
    "tasks/resubscribe": (v03.TaskResubscriptionRequest, None),
    "tasks/pushNotificationConfig/set": (
        v03.SetTaskPushNotificationConfigRequest,
        conversions.to_core_create_task_push_notification_config_request,
    ),
    "tasks/pushNotificationConfig/get": (v03.GetTaskPushNotificationConfigRequest, None),
    "tasks/pushNotificationConfig/list": (v03.ListTaskPushNotificationConfigRequest, None),
    "tasks/pushNotificationConfig/delete": (v03.DeleteTaskPushNotificationConfigRequest, None),
    "agent/getAuthenticatedExtendedCard": (v03.GetAuthenticatedExtendedCardRequest, None),
}
"""For each method of A2A 0.3, the request's class, and the library's conversion to 1.0, for values
that may be out of the range of 1.0."""


@router.get(_APP + _CARD)
async def get_agent_card(
    services: CurrentServices, caller: CurrentCaller, app_name: str, request: Request
) -> Response:
    """Return an app's agent card, which is public if the server's apps are configured.

    The extended card also names its tools.
    """
    known = caller.is_operator or caller.user_id is not None
    await services.check_app(app_name, caller)
    return JSONResponse(agent_card_to_dict(_card(services, app_name, request, whole=known)))


@router.post(_APP)
async def handle(
    services: CurrentServices,
    caller: CurrentCaller,
    app_name: str,
    request: Request,
    when_busy: WhenBusyHeader = None,
) -> Response:
    """Handle an A2A request in JSON-RPC."""
    handler = await _handler(services, caller, app_name, request, when_busy)
    if refusal := _refusal(await _json_of(request)):
        return refusal
    dispatcher = _Dispatcher(handler, enable_v0_3_compat=True)
    try:
        return _kept_alive(await dispatcher.handle_requests(request), services)
    except UnicodeEncodeError:  # e.g. the error quotes a lone surrogate
        error = {"code": _INVALID, "message": "id has a lone surrogate, which is no character."}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error})


class _Dispatcher(JsonRpcDispatcher):
    """Truncates the library's quotes of a 1.0 request that it cannot parse."""

    def _generate_error_response(self, request_id: str | int | None, error: Any) -> JSONResponse:
        data = getattr(error, "data", None)
        if isinstance(data, dict) and "parseError" in data:
            error.data = {"parseError": _cut(str(cast("Any", data)["parseError"]))}
        return super()._generate_error_response(request_id, error)


def _cut(problem: str) -> str:
    return problem[:_QUOTED].encode(errors="replace").decode()


async def _json_of(request: Request) -> Any:
    try:
        return await request.json()
    except (ValueError, RecursionError):
        return None  # the dispatcher reports that


def _refusal(body: Any) -> Response | None:
    """Return the response to a malformed request of A2A 0.3.

    The library would quote the request several times in each of its problems.
    """
    sent = cast("dict[str, Any]", body if isinstance(body, dict) else {})
    method = sent.get("method")
    if not isinstance(method, str) or method not in _V03 or sent.get("jsonrpc") != "2.0":
        return None  # a 1.0 request, or not JSON-RPC, which the dispatcher reports
    model, convert = _V03[method]
    try:
        check_json(sent, "request")
        read = parsed(model, sent, "request", extra="ignore")
        if convert is not None:
            convert(read)
    except CallerError as error:
        problem = error.message
    except Exception as error:  # noqa: BLE001 - errors of the library and of protobuf
        problem = (
            f"params cannot be read ({type(error).__name__}): a number may be out of range, data "
            "nested too deep, or bytes not in base64."
        )
    else:
        return None
    return JSONResponse(
        {
            "jsonrpc": "2.0",
            "id": _name_of(sent),
            "error": {"code": _INVALID_PARAMS, "message": _cut(problem)},
        }
    )


def _name_of(sent: dict[str, Any]) -> str | int | None:
    """Return the id of a request, if a response can contain it."""
    name = sent.get("id")
    if isinstance(name, str):
        return name if name.encode(errors="replace").decode() == name else None
    return name if isinstance(name, int) and not isinstance(name, bool) else None


def _rest(work: Callable[[RestDispatcher, Request], Awaitable[Response]]) -> Callable[..., Any]:
    async def handle_rest(
        services: CurrentServices,
        caller: CurrentCaller,
        app_name: str,
        request: Request,
        when_busy: WhenBusyHeader = None,
    ) -> Response:
        handler = await _handler(services, caller, app_name, request, when_busy)
        try:
            response = await work(RestDispatcher(handler), request)
        except UnicodeEncodeError:  # a lone surrogate cannot be encoded
            return _refused("The request has a lone surrogate, which is no character.")
        if response.status_code == BAD_REQUEST and len(response.body) > _LONG:
            return _refused(_cut(json.loads(bytes(response.body))["error"]["message"]))
        if response.status_code == UNAVAILABLE:
            response.headers.update(RETRY_AFTER)
        return _kept_alive(response, services)

    return handle_rest


def _refused(problem: str) -> Response:
    error = {"code": BAD_REQUEST, "status": "INVALID_ARGUMENT", "message": problem}
    return JSONResponse({"error": error}, BAD_REQUEST)


def _kept_alive(response: Response, services: ServerServices) -> Response:
    if isinstance(response, EventSourceResponse):
        response.ping_interval = min(services.settings.ping_seconds, MAX_PING_SECONDS)
    return response


for _method, _path, _work in (
    ("POST", "/message:send", RestDispatcher.on_message_send),
    ("POST", "/message:stream", RestDispatcher.on_message_send_stream),
    ("POST", "/tasks/{id}:cancel", RestDispatcher.on_cancel_task),
    ("GET", "/tasks/{id}:subscribe", RestDispatcher.on_subscribe_to_task),
    ("POST", "/tasks/{id}:subscribe", RestDispatcher.on_subscribe_to_task),
    ("GET", "/tasks/{id}", RestDispatcher.on_get_task),
    ("POST", "/tasks/{id}/pushNotificationConfigs", RestDispatcher.set_push_notification),
    ("GET", "/tasks/{id}/pushNotificationConfigs", RestDispatcher.list_push_notifications),
    ("GET", _PUSH_CONFIG, RestDispatcher.get_push_notification),
    ("DELETE", _PUSH_CONFIG, RestDispatcher.delete_push_notification),
    ("GET", "/tasks", RestDispatcher.list_tasks),
    ("GET", "/extendedAgentCard", RestDispatcher.handle_authenticated_agent_card),
):
    # The protocol's own documents describe these routes, not OpenAPI.
    router.add_api_route(_APP + _path, _rest(_work), methods=[_method], include_in_schema=False)


async def _handler(
    services: ServerServices,
    caller: Caller,
    app_name: str,
    request: Request,
    when_busy: WhenBusy | None,
) -> TaskHandler:
    await services.check_app(app_name, caller)
    card = _card(services, app_name, request)
    return TaskHandler(services, caller, app_name, request, card, when_busy or WhenBusy.ENQUEUE)


def _card(
    services: ServerServices, app_name: str, request: Request, *, whole: bool = True
) -> AgentCard:
    app = services.apps.get(app_name)
    settings = services.settings
    base = settings.public_url or str(request.base_url)
    url = f"{base.rstrip('/')}/a2a/{app_name}"
    return card_of(app_name, app, url=url, settings=settings, whole=whole)
