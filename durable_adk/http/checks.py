"""Checks of a request before it is routed: its host, origin, content type and length (S29).

Each check is an ASGI middleware, so it also protects mounted applications.
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
"""Header of a response after which the server closes the connection."""
API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Content security policy of responses that are not pages: a browser runs nothing in them."""
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
    """Adds headers that restrict how a browser treats a response, unless the response sets them."""

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
    """Refuses a request whose Host header does not name the server.

    This stops DNS rebinding: if an attacker's host name resolves to this machine, the browser
    treats the server as the attacker page's own origin, but its requests carry the attacker's host
    name.
    """

    app: ASGIApp
    hosts: Collection[str]
    """Host names without ports; ``*`` allows any, behind a proxy that checks them."""
    is_open: Callable[[str], bool] = lambda _: False
    """Whether a path is served under any host name."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "websocket":  # no route accepts one; CORS does not cover them
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "lifespan" or self._knows(scope):
            await self.app(scope, receive, send)
        else:
            problem = "The server does not have the name in the request's Host header."
            await refuse(send, 403, PermissionDeniedError(problem))

    def _knows(self, scope: Scope) -> bool:
        values = values_of(scope, "host")
        if len(values) != 1:
            return False
        return "*" in self.hosts or _host(values[0]) in self.hosts or self.is_open(path_of(scope))


def _host(netloc: str) -> str | None:
    try:
        return urlsplit(f"//{netloc}").hostname
    except ValueError:
        return None


@dataclass(frozen=True)
class KnownOrigins:
    """Refuses state-changing requests that a page of another origin makes a browser send (CSRF).

    A browser names the page's origin in ``Origin`` or ``Sec-Fetch-Site``; other clients send
    neither. A body must be JSON, which a page of another origin cannot send without a CORS
    preflight.
    """

    app: ASGIApp
    origins: Collection[str] = ()
    """Additional origins that may send such requests, e.g. ``https://app.example.com``."""

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
        values = values_of(scope, "origin")
        if not values:
            return value_of(scope, "sec-fetch-site") in (None, "same-origin", "none")
        if len(values) > 1:
            return False
        # Only hosts are compared: a proxy may use another scheme, and `KnownHosts` checked the
        # host.
        own = values[0].partition("://")[2] == value_of(scope, "host") != ""
        return own or values[0] in self.origins


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
    """Refuses a request with two lengths, which allows request smuggling through a proxy."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if value_of(scope, "content-length") and value_of(scope, "transfer-encoding"):
            problem = "The request has both Content-Length and Transfer-Encoding; send one."
            await refuse(send, 400, InvalidRequestError(problem), CLOSE)
        else:
            await self.app(scope, receive, send)
