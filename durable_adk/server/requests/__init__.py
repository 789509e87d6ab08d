"""Paths of requests, and their representation in the log."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from durable_adk.server.caller import SLASH

ANSWERS = "/answers/"
"""Prefix of the paths that end with a token."""
_SECRET_WORDS = ("token", "key", "secret", "code", "signature", "password", "jwt", "pass")
_SECRET_NAMES = ("auth", "authorization", "credential", "credentials", "sig", "pwd")
HIDDEN = "***"
_SHOWN = 2_000
"""Maximum characters of a path, and of a query, in the log."""


def shown_target(scope: Mapping[str, Any]) -> str:
    """Return a request's path and query for a log, without secrets."""
    path: str = scope["path"].replace(SLASH, "/")
    if (start := path.find(ANSWERS)) >= 0:
        path = path[: start + len(ANSWERS)] + HIDDEN
    text: str = scope.get("query_string", b"")[:_SHOWN].decode("latin-1")
    parameters = parse_qsl(text, keep_blank_values=True)
    shown = [f"{quote(name)}={_shown(name, value)}" for name, value in parameters]
    return quote(path[:_SHOWN], safe="/*:@") + ("?" + "&".join(shown) if shown else "")


def _shown(name: str, text: str) -> str:
    words = name.lower().replace("-", "_").split("_")
    secret = name.lower() != "page_token" and any(
        word.endswith(_SECRET_WORDS) or word in _SECRET_NAMES for word in words
    )
    return HIDDEN if secret else quote(text, safe=":")


@dataclass(frozen=True)
class EncodedSlashes:
    """Prevents an encoded slash (``%2F``) from dividing the path.

    Ids of users and sessions may contain slashes. It precedes all other checks, so that they use
    the same path as the routing; `caller_of` restores the slashes for the route.
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
