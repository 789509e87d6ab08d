"""Optional import of `starlette`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError:
    if TYPE_CHECKING:
        raise
    Starlette = Middleware = CORSMiddleware = Route = Absent
    Request = JSONResponse = Response = HTTPException = ClientDisconnect = Absent

__all__ = [
    "CORSMiddleware",
    "ClientDisconnect",
    "HTTPException",
    "JSONResponse",
    "Middleware",
    "Request",
    "Response",
    "Route",
    "Starlette",
]
