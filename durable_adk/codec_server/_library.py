"""What is used here of `starlette` and `uvicorn`, or that they are not installed."""

from typing import TYPE_CHECKING

from durable_adk.errors import InvalidRequestError

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

    installed = True
except ImportError:
    if TYPE_CHECKING:
        raise
    # Whatever needs these is made by `application` or `serve`, which refuse to make it.
    installed = False
    Starlette = Middleware = CORSMiddleware = TrustedHostMiddleware = Route = Config = None
    Request = JSONResponse = Response = None
    HTTPException = ClientDisconnect = Exception
    Server = H11Protocol = object

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
    "require",
]


def require() -> None:
    """Refuse what cannot work.

    Raises:
        InvalidRequestError: The libraries are not installed.
    """
    if not installed:
        raise InvalidRequestError(
            "The codec server needs starlette and uvicorn, which are an extra: "
            'pip install "durable-adk[codec]"'
        )
