"""The request log: one line per request, with sender and status and without content."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from durable_adk.log import get_logger
from durable_adk.server.caller import SLASH, identified
from durable_adk.server.limits import ANSWERS

logger = get_logger(__name__)
_QUIET = ("/health", "/ready")
"""Paths that probes request constantly."""
_SECRET_WORDS = ("token", "key", "secret", "code", "signature", "password", "jwt", "pass")
_SECRET_NAMES = ("auth", "authorization", "credential", "credentials", "sig", "pwd")
HIDDEN = "***"
_SHOWN = 2_000
"""Maximum characters of a path, and of a query, in the log."""


class AccessLog:
    """Logs each response after its end, so that a stream's line has its duration."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or scope["path"] in _QUIET:
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            _log(scope, status, time.monotonic() - began)


def _log(scope: Mapping[str, Any], status: int, seconds: float) -> None:
    user = identified(scope).user_id
    logger.info(
        "http.request",
        method=scope["method"],
        target=shown_target(scope),
        status=status,
        seconds=round(seconds, 4),
        **({} if user is None else {"user_id": user}),
    )


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
