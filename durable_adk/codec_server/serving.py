"""Listening until the process is told to end."""

import asyncio
import logging
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from durable_adk.codec_server._library import Config, Server, require
from durable_adk.errors import InvalidRequestError

if TYPE_CHECKING:
    from starlette.applications import Starlette

_AT_ONCE = 64
"""Connections and requests; of more, each gets 503."""
_GRACE = 5
"""Seconds that an answer may take after the end has come."""


class _Server(Server):
    """The library's server without signal handlers: the command has its own."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See base class."""
        yield


async def serve(
    application: "Starlette", *, host: str, port: int, listening: Callable[[int], None]
) -> None:
    """Serve until cancelled; what is being answered then is answered.

    Args:
        application: What answers.
        host: The address to listen at.
        port: 0: any that is free.
        listening: Called with the port when a request would be heard.

    Raises:
        InvalidRequestError: The address cannot be used, or the extra ``codec`` is not installed.
    """
    require()
    with _listener(host, port) as listener:
        config = Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_AT_ONCE,
            timeout_graceful_shutdown=_GRACE,
        )
        # Its lines hold addresses, and those may hold the token; it may have handlers of its own.
        logging.getLogger("uvicorn.access").disabled = True
        server = _Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        listening(listener.getsockname()[1])
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await serving


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InvalidRequestError(
            f"Nothing can be served at {host}, port {port}: {error}. Choose others with --host and "
            "--port."
        ) from error
