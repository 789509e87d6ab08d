"""Optional import of `starlette` and `uvicorn`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from uvicorn import Config, Server
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    if TYPE_CHECKING:
        raise
    Starlette = Middleware = CORSMiddleware = TrustedHostMiddleware = Route = Config = Absent
    Request = JSONResponse = Response = HTTPException = ClientDisconnect = Absent
    Server = H11Protocol = Absent

__all__ = [
    "CORSMiddleware",
    "ClientDisconnect",
    "Config",
    "H11Protocol",
    "HTTPException",
    "JSONResponse",
    "Middleware",
    "Request",
    "Response",
    "Route",
    "Server",
    "Starlette",
    "TrustedHostMiddleware",
]
