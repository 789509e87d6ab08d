"""The request log: one line per request, with sender and status and without content."""

import time
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from durable_adk.log import get_logger
from durable_adk.server.caller import identified
from durable_adk.server.requests import shown_target

logger = get_logger(__name__)
_QUIET = ("/health", "/ready")
"""Paths that probes request constantly."""


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
