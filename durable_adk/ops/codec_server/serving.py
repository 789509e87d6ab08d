"""Listening until the process is told to end."""

import asyncio
import logging
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from durable_adk.errors import InvalidRequestError
from durable_adk.extras import require
from durable_adk.ops.codec_server._library import Config, H11Protocol, Server

if TYPE_CHECKING:
    from starlette.applications import Starlette

_AT_ONCE = 64
"""Connections and requests; of more, each gets 503."""
_PATIENCE = 5.0
"""Seconds until a connection must have sent a request's head: it counts, and needs no token."""
_GRACE = 5
"""Seconds that an answer may take after the end has come."""


class _Server(Server):
    """The library's server without signal handlers: the command has its own."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See base class."""
        yield


class _Protocol(H11Protocol):
    """The library's connection, ended when it does not ask.

    The library's own patience begins after the first answer, and anew with each byte.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See base class."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """See base class."""
        self._expect_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """See base class; here a head that is complete begins a cycle."""
        super().handle_events()
        if self.cycle and not self.cycle.response_complete:
            self._expect_no_more()

    def on_response_complete(self) -> None:
        """See base class."""
        self._expect()  # first, as the next request may be there
        super().on_response_complete()

    def _expect(self) -> None:
        self._expect_no_more()
        self._deadline = self.loop.call_later(_PATIENCE, self.timeout_keep_alive_handler)

    def _expect_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


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
    require("codec")
    with _listener(host, port) as listener:
        config = Config(
            application,
            http=_Protocol,
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
