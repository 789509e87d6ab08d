"""Optional import of `starlette` and `uvicorn`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from h11 import SERVER, Connection, Data, RemoteProtocolError, Request as RequestHead
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
    Server = H11Protocol = Connection = SERVER = Absent
    Data = RemoteProtocolError = RequestHead = Absent

__all__ = [
    "SERVER",
    "CORSMiddleware",
    "ClientDisconnect",
    "Config",
    "Connection",
    "Data",
    "H11Protocol",
    "HTTPException",
    "JSONResponse",
    "Middleware",
    "RemoteProtocolError",
    "Request",
    "RequestHead",
    "Response",
    "Route",
    "Server",
    "Starlette",
    "TrustedHostMiddleware",
]
