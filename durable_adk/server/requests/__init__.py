"""What a request must be like before it is served: its host, origin and type (S29).

Each check is an ASGI middleware, so it stands before every route, also before those of mounted
applications.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from durable_adk.errors import (
    InvalidRequestError,
    PermissionDeniedError,
)
from durable_adk.server.caller import SLASH
from durable_adk.server.responses import path_of, refuse, value_of, values_of

SAFE = frozenset(["GET", "HEAD", "OPTIONS"])
"""Methods that change nothing."""
ANSWERS = "/answers/"
"""Start of the paths that end with a token."""
_SECRET_WORDS = ("token", "key", "secret", "code", "signature", "password", "jwt", "pass")
_SECRET_NAMES = ("auth", "authorization", "credential", "credentials", "sig", "pwd")
HIDDEN = "***"
_SHOWN = 2_000
"""Most characters of a path, and of a query, in the log."""
CLOSE = {"connection": "close"}
"""Header of a response after which nothing more is read from the connection."""

API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Policy of responses that are no pages: if a browser shows one, it runs nothing."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; frame-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Policy of our page: code and styles of our files only, and no other server."""
_HEADERS = {
    "content-security-policy": API_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def shown_target(scope: Mapping[str, Any]) -> str:
    """Return a request's path and query for a log, without the secrets that they may have."""
    path: str = scope["path"].replace(SLASH, "/")
    if (start := path.find(ANSWERS)) >= 0:
        path = path[: start + len(ANSWERS)] + HIDDEN
    text: str = scope.get("query_string", b"")[:_SHOWN].decode("latin-1")
    given = parse_qsl(text, keep_blank_values=True)
    shown = [f"{quote(name)}={_shown(name, value)}" for name, value in given]
    return quote(path[:_SHOWN], safe="/*:@") + ("?" + "&".join(shown) if shown else "")


def _shown(name: str, text: str) -> str:
    words = name.lower().replace("-", "_").split("_")
    secret = name.lower() != "page_token" and any(
        word.endswith(_SECRET_WORDS) or word in _SECRET_NAMES for word in words
    )
    return HIDDEN if secret else quote(text, safe=":")


@dataclass(frozen=True)
class EncodedSlashes:
    """Keeps a slash that a client has encoded (``%2F``) from dividing the path.

    Ids of users and sessions may have slashes. It comes before all other checks, so that all of
    them see the path by which the route is found; `caller_of` gives the route the ids.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        raw: bytes = scope.get("raw_path") or b""
        # Otherwise a server or middleware before this one has changed the path.
        if b"%2f" in raw.lower() and unquote(raw.decode("latin-1")) == scope["path"]:
            kept = re.sub("%2f", quote(SLASH), raw.decode("latin-1"), flags=re.IGNORECASE)
            scope = {**scope, "path": unquote(kept)}
        await self.app(scope, receive, send)


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
