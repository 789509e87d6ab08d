"""The HTTP server process of the codec server."""

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

_CONCURRENCY = 64
"""Concurrent connections and requests; further ones get status 503."""
_HEAD_TIMEOUT = 5.0
"""Seconds a connection has to send a request's head: it occupies a slot without any token."""
_BODY_TIMEOUT = 60.0
"""Seconds in which a body must end, or `_BODY_PART` more bytes of it arrive."""
_BODY_PART = 200_000
_SHUTDOWN_TIMEOUT = 5
"""Seconds a response may take after shutdown was requested."""


class _Server(Server):
    """uvicorn's server without signal handlers: the command has its own."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See base class."""
        yield


class Protocol(H11Protocol):
    """uvicorn's connection, closed if it does not send a request in time.

    uvicorn's own timeout starts after the first response, and is reset by each byte.
    """

    _deadline: asyncio.TimerHandle | None = None
    _received = 0
    _of_body: object = None
    """The cycle to whose body the deadline belongs."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See base class."""
        super().connection_made(transport)
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """See base class."""
        self._stop_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See base class."""
        self._received += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        """See base class; a complete request head starts a cycle."""
        super().handle_events()
        if not self.cycle or self.cycle.response_complete:
            return
        if not self.cycle.more_body:
            self._stop_timeout()
        elif self._of_body is not self.cycle:
            self._of_body = self.cycle
            self._start_body_timeout()

    def on_response_complete(self) -> None:
        """See base class."""
        self._start_timeout()  # first, because the next request may have arrived
        super().on_response_complete()

    def _start_timeout(self) -> None:
        self._stop_timeout()
        self._deadline = self.loop.call_later(_HEAD_TIMEOUT, self.timeout_keep_alive_handler)

    def _start_body_timeout(self) -> None:
        self._stop_timeout()
        self._deadline = self.loop.call_later(_BODY_TIMEOUT, self._check_body, self._received)

    def _check_body(self, received_before: int) -> None:
        # Reading is paused while the application does not take what has arrived.
        if self.flow.read_paused or self._received >= received_before + _BODY_PART:
            self._start_body_timeout()
        else:
            self.transport.close()

    def _stop_timeout(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def serve(
    application: "Starlette", *, host: str, port: int, listening: Callable[[int], None]
) -> None:
    """Serve until cancelled; requests in progress are completed.

    Args:
        application: The ASGI application.
        host: The address to listen on.
        port: The port; 0 for any free port.
        listening: Called with the port as soon as requests are accepted.

    Raises:
        InvalidRequestError: The address cannot be used, or the extra ``codec`` is not installed.
    """
    require("codec")
    with listener(host, port) as accepting:
        config = Config(
            application,
            http=Protocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_CONCURRENCY,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
        )
        # Its lines contain URLs, which may contain the token, and it may have its own handlers.
        logging.getLogger("uvicorn.access").disabled = True
        server = _Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[accepting]))
        listening(accepting.getsockname()[1])
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await serving


def listener(host: str, port: int) -> socket.socket:
    """Listen for TCP connections that send what is written at once.

    Raises:
        InvalidRequestError: The address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InvalidRequestError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another address with --host "
            "and --port."
        ) from error
    # asyncio turns Nagle's algorithm off only for sockets that name their protocol. With it, the
    # body of each response on a connection that is kept came 40 ms after its headers.
    return socket.socket(family, made.type, socket.IPPROTO_TCP, fileno=made.detach())
