"""HTTP responses for errors."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from durable_adk.errors import (
    AlreadyExistsError,
    AmbiguousInvocationError,
    AuthenticationError,
    CallerError,
    DurableAdkError,
    EventConflictError,
    InvocationCancelledError,
    LeaseLostError,
    NotFoundError,
    NoWorkerError,
    PayloadTooLargeError,
    PermissionDeniedError,
    QueueFullError,
    RateLimitError,
    RequestNotRebuiltError,
    SessionBusyError,
    StaleSessionError,
    TransientError,
    UnknownAppError,
    class_name,
)
from durable_adk.json_values import MAX_PROBLEMS

_STATUSES: dict[type[DurableAdkError], int] = {
    NotFoundError: 404,
    UnknownAppError: 404,
    AlreadyExistsError: 409,
    AmbiguousInvocationError: 409,
    StaleSessionError: 409,
    SessionBusyError: 409,
    EventConflictError: 409,
    LeaseLostError: 409,
    InvocationCancelledError: 409,
    RequestNotRebuiltError: 409,
    PayloadTooLargeError: 413,
    AuthenticationError: 401,
    PermissionDeniedError: 403,
    RateLimitError: 429,
    QueueFullError: 429,
    CallerError: 400,
    TransientError: 503,
}
"""The status for each error class; the first match counts."""
RETRY_AFTER = {"Retry-After": "1"}
BAD_REQUEST, UNAVAILABLE = 400, 503
"""Statuses of responses after which a request may be sent again."""
_QUOTED = 300
"""Maximum characters of a message or a name in the report of a malformed request."""
_GONE = 499
"""Status in the log for a client that disconnected before it had sent the whole body."""


class ErrorReport(BaseModel):
    """A problem of a request."""

    type: str
    """Name of the error's class."""
    message: str
    field: str | None = None
    invocationId: str | None = None  # noqa: N815 - as in JSON


class ErrorResponse(BaseModel):
    """The body of each response that reports an error."""

    error: ErrorReport
    detail: Any = None
    """The message for ADK's clients."""


DESCRIBED: dict[int | str, dict[str, Any]] = {
    "default": {"model": ErrorResponse, "description": "An error; `error.type` names its kind."}
}


def describe_errors(operation: dict[str, Any]) -> None:
    """Describe all errors of a route as one response in JSON, whatever its media type is."""
    responses = operation["responses"]
    responses.pop("422", None)  # of FastAPI, in another format
    shape = {"schema": {"$ref": f"#/components/schemas/{ErrorResponse.__name__}"}}
    responses["default"]["content"] = {"application/json": shape}


def status_of(error: DurableAdkError) -> int:
    """Return the HTTP status for an error."""
    return next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)


def error_response(
    status: int,
    kind: str,
    message: str,
    *,
    detail: Any = None,
    field: str | None = None,
    invocation_id: str | None = None,
    frames: list[str] | None = None,
) -> Response:
    """Return a response that reports an error, for our clients and for ADK's.

    Args:
        status: The HTTP status.
        kind: Name of the error's class.
        message: The problem and the remedy.
        detail: The message for ADK's clients; None: `message`.
        field: The invalid field of the request.
        invocation_id: The invocation that continues: do not repeat the request unchanged.
        frames: Frames of user code in the error's traceback, for operators.
    """
    more = {"field": field, "invocationId": invocation_id, "at": frames}
    known = {name: text for name, text in more.items() if text}
    error = {"type": kind, "message": message, **known}
    # ASCII: the report may quote text that UTF-8 cannot encode (lone surrogates).
    body = json.dumps({"error": error, "detail": detail or message}, default=repr)
    headers = RETRY_AFTER if status in (429, 503) and not invocation_id else {}
    return Response(body, status, headers, media_type="application/json")


def add_handlers(app: FastAPI) -> None:
    """Make an application report errors in this module's format."""
    app.add_exception_handler(DurableAdkError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _failed)
    app.add_exception_handler(ClientDisconnect, _client_disconnected)
    app.add_exception_handler(Exception, _broken)


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, DurableAdkError):
        raise error
    field = error.field if isinstance(error, EventConflictError) else None
    return error_response(
        status_of(error),
        class_name(error),
        error.message,
        field=field and to_camel(field),
        invocation_id=error.invocation_id if isinstance(error, NoWorkerError) else None,
    )


async def _invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    problems = [_shown(one) for one in error.errors()[:MAX_PROBLEMS]]
    first: dict[str, Any] = problems[0] if problems else {}
    source, *loc = [str(part) for part in first.get("loc", ())] or [""]
    message = str(first.get("msg", "is malformed"))
    if first.get("type") == "json_invalid":
        field = source
        problem = error.errors()[0]["ctx"]["error"]
        message = f"The body is not JSON: {problem} at character {loc[0]}."
    else:
        # After a parameter's name, the location has an index or the name of a type.
        field = ".".join(loc if source == "body" else loc[:1]) or source or None
        message = f"{field or 'The request'}: {message}"
    return error_response(422, "InvalidRequestError", message, detail=problems, field=field)


def _shown(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return a problem in FastAPI's format, without the request's value.

    Locations and messages may contain names from the request; these are cut if they are long.
    """
    loc = [one[:_QUOTED] if isinstance(one, str) else one for one in problem["loc"]]
    return {"type": problem["type"], "loc": loc, "msg": str(problem["msg"])[:_QUOTED]}


async def _broken(_: Request, __: Exception) -> Response:
    """Return the response to a request for which the server itself has failed."""
    return error_response(500, "InternalServerError", "The server has failed; its log says why.")


async def _client_disconnected(_: Request, __: Exception) -> Response:
    return Response(status_code=_GONE)  # the client has disconnected


async def _failed(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error.__cause__, ClientDisconnect):  # FastAPI reads the body of most routes
        return await _client_disconnected(request, error)
    kinds = {404: "NotFoundError", 503: "TransientError"}
    kind = kinds.get(error.status_code, "InvalidRequestError")
    response = error_response(error.status_code, kind, str(error.detail), detail=error.detail)
    response.headers.update(error.headers or {})  # e.g. the methods that a path allows
    return response
