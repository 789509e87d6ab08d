"""What a request must be like before it is served: its host, origin, type and length (S29).

Each check is an ASGI middleware, so it stands before every route, also before those of mounted
applications.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from durable_adk.errors import InvalidRequestError, PermissionDeniedError
from durable_adk.http._library import ASGIApp, Message, Receive, Scope, Send
from durable_adk.http.responses import path_of, refuse, value_of, values_of

SAFE = frozenset(["GET", "HEAD", "OPTIONS"])
"""Methods that change nothing."""
CLOSE = {"connection": "close"}
"""Header of a response after which nothing more is read from the connection."""
API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Policy of responses that are no pages: if a browser shows one, it runs nothing."""
_HEADERS = {
    "content-security-policy": API_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class SecurityHeaders:
    """Adds headers that restrict what a browser does with a response, unless it has its own."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
                own = {name.lower() for name, _ in headers}
                message["headers"] = headers + [
                    (name.encode(), text.encode())
                    for name, text in _HEADERS.items()
                    if name.encode() not in own
                ]
            await send(message)

        await self.app(scope, receive, with_headers)


@dataclass(frozen=True)
class KnownHosts:
    """Refuses a request to a host name that is not the server's.

    A page whose own name was rebound to this machine's address (DNS rebinding) is of the same
    origin for its browser; its requests have its own name.
    """

    app: ASGIApp
    hosts: Collection[str]
    """Names without ports; ``*`` for any, behind a proxy that checks them."""
    is_open: Callable[[str], bool] = lambda _: False
    """Whether a path is served under any name."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "websocket":  # no route has any, and they have no preflight
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "lifespan" or self._knows(scope):
            await self.app(scope, receive, send)
        else:
            problem = "The server does not have the name in the request's Host header."
            await refuse(send, 403, PermissionDeniedError(problem))

    def _knows(self, scope: Scope) -> bool:
        given = values_of(scope, "host")
        if len(given) != 1:
            return False
        return "*" in self.hosts or _host(given[0]) in self.hosts or self.is_open(path_of(scope))


def _host(netloc: str) -> str | None:
    try:
        return urlsplit(f"//{netloc}").hostname
    except ValueError:
        return None


@dataclass(frozen=True)
class KnownOrigins:
    """Refuses what a page of another origin asks a browser to change (CSRF).

    A browser says whose page sends a request, in ``Origin`` or ``Sec-Fetch-Site``; other clients
    send neither. A body must be JSON, which a page of another origin cannot send without asking
    first.
    """

    app: ASGIApp
    origins: Collection[str] = ()
    """Origins that may, beside the server's own, such as ``https://app.example.com``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or scope["method"] in SAFE:
            await self.app(scope, receive, send)
        elif not self._may_change(scope):
            problem = "A page of another origin may not do this; list it in the server's origins."
            await refuse(send, 403, PermissionDeniedError(problem))
        elif _has_body(scope) and not _is_json(value_of(scope, "content-type") or ""):
            problem = "The request's body must be JSON, with Content-Type: application/json."
            await refuse(send, 415, InvalidRequestError(problem))
        else:
            await self.app(scope, receive, send)

    def _may_change(self, scope: Scope) -> bool:
        given = values_of(scope, "origin")
        if not given:
            return value_of(scope, "sec-fetch-site") in (None, "same-origin", "none")
        if len(given) > 1:
            return False
        # The scheme is the proxy's if there is one, and the host was checked.
        own = given[0].partition("://")[2] == value_of(scope, "host") != ""
        return own or given[0] in self.origins


def _has_body(scope: Scope) -> bool:
    length = value_of(scope, "content-length")
    return length not in (None, "0") or value_of(scope, "transfer-encoding") is not None


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


@dataclass(frozen=True)
class OneLength:
    """Refuses a request with two lengths: a proxy may take its end for another request."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if value_of(scope, "content-length") and value_of(scope, "transfer-encoding"):
            problem = "The request has both Content-Length and Transfer-Encoding; send one."
            await refuse(send, 400, InvalidRequestError(problem), CLOSE)
        else:
            await self.app(scope, receive, send)
