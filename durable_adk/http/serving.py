"""The process that serves an application over HTTP."""

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from durable_adk.errors import InvalidRequestError
from durable_adk.http._library import (
    SERVER,
    ASGIApp,
    Config,
    Connection,
    Data,
    H11Protocol,
    RemoteProtocolError,
    RequestHead,
    Server,
)
from durable_adk.http.address import url_of
from durable_adk.log import get_logger

logger = get_logger(__name__)
_HEAD_TIMEOUT = 5.0
"""Seconds for sending a request's head: until then a connection takes a slot unauthenticated."""
_BODY_TIMEOUT = 60.0
"""Seconds within which a body must end, or `_BODY_PART` more bytes of it arrive."""
_BODY_PART = 200_000
_PIECES, _PIECE = 1_000, 64
"""A body may arrive in this many pieces, plus one for each `_PIECE` bytes."""
_READ_TIMEOUT = 60.0
"""Seconds within which a client must read a full write buffer, 64 kB at least."""
BACKLOG = 100
"""Connections accepted per event loop wake-up; asyncio logs each failed accept."""
_QUEUE = 2048
"""Length of the operating system's queue of connections that are not accepted yet."""
_RESERVED = 100
"""File descriptors kept free for stores, Temporal and channels."""
_MOST_FILES = 65_536
_LOGGED = 60.0
"""Minimum seconds between two log lines about refused connections."""
_SHUTDOWN_TIMEOUT = 5
"""Seconds a response may take after shutdown was requested."""


def max_connections() -> int:
    """Return the maximum number of connections, by the process's limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft - _RESERVED, soft // 2) if soft > 0 else _MOST_FILES


class QuietServer(Server):
    """uvicorn's server with less logging and without signal handlers: commands have their own.

    At the limit of open files, thousands of attempts to accept a connection fail per second.
    """

    _logged = -_LOGGED

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See base class."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See base class."""
        loop = asyncio.get_running_loop()
        self._before = loop.get_exception_handler()
        loop.set_exception_handler(self._report)
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_QUEUE)  # asyncio has set it to `BACKLOG`

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See base class."""
        await super().shutdown(sockets)
        asyncio.get_running_loop().set_exception_handler(self._before)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context["message"] != "socket.accept() out of system resource":
            if self._before is None:
                loop.default_exception_handler(context)
            else:
                self._before(loop, context)
        elif loop.time() > self._logged + _LOGGED:
            self._logged = loop.time()
            logger.warning("server.no_more_files", remedy="raise the limit, ulimit -n")


class WholeBodies(Connection):
    """Refuses a body in many small pieces: reading one takes as long as reading a large one."""

    _pieces = _bytes = 0

    def next_event(self) -> Any:
        """See base class."""
        event = super().next_event()
        if isinstance(event, RequestHead):
            self._pieces = self._bytes = 0
        elif isinstance(event, Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > _PIECES + self._bytes // _PIECE:
                raise RemoteProtocolError("The body has too many pieces.")
        return event


class Protocol(H11Protocol):
    """uvicorn's connection with timeouts for sending a request and for reading a response.

    uvicorn's own timeout starts only after the first response, and each byte resets it. At the
    limit of connections, the one that has been idle the longest is closed for a new one.
    """

    _idle: ClassVar[WeakKeyDictionary[Config, dict["Protocol", None]]] = WeakKeyDictionary()
    """The connections without a request by server, the longest idle first."""
    _logged: ClassVar[float] = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _received = 0
    _of_body: object = None
    """The request cycle whose body `_deadline` limits."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See base class."""
        super().connection_made(transport)
        self.conn = WholeBodies(SERVER)
        self._set_idle()
        if len(self.connections) >= (self.limit_concurrency or max_connections()):
            self._make_room()
        self._start_timeout()

    def _set_idle(self) -> None:
        self._idle.setdefault(self.config, {})[self] = None

    def _unset_idle(self) -> None:
        self._idle.get(self.config, {}).pop(self, None)

    def _make_room(self) -> None:
        idle = self._idle[self.config]
        oldest = next(iter(idle))  # the new connection itself, if all others have requests
        del idle[oldest]
        self.connections.discard(oldest)
        oldest.transport.abort()
        if self.loop.time() > Protocol._logged + _LOGGED:
            Protocol._logged = self.loop.time()
            logger.warning("server.no_more_connections", connections=len(self.connections))

    def pause_writing(self) -> None:
        """See base class."""
        super().pause_writing()
        self._start_unread()

    def resume_writing(self) -> None:
        """See base class."""
        super().resume_writing()
        self._stop_unread()

    def _start_unread(self) -> None:
        self._stop_unread()
        self._unread = self.loop.call_later(_READ_TIMEOUT, self.transport.abort)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        """See base class."""
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():  # closing sends the buffered data first
            self._start_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """See base class."""
        self._stop_timeout()
        self._unset_idle()
        super().connection_lost(exc)
        self._stop_unread()

    def data_received(self, data: bytes) -> None:
        """See base class."""
        self._received += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        """See base class; also switches from the timeout of the head to that of the body."""
        super().handle_events()
        if not self.cycle or self.cycle.response_complete:
            return
        self._unset_idle()
        if not self.cycle.more_body:
            self._stop_timeout()
        elif self._of_body is not self.cycle:
            self._of_body = self.cycle
            self._start_body_timeout()

    def send_400_response(self, msg: str) -> None:
        """See base class, which fails if the response has already started."""
        if self.cycle and self.cycle.response_started:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """See base class."""
        self._start_timeout()  # before the base class, which may process the next request
        self._set_idle()
        super().on_response_complete()

    def _start_timeout(self) -> None:
        self._stop_timeout()
        self._deadline = self.loop.call_later(_HEAD_TIMEOUT, self.timeout_keep_alive_handler)

    def _start_body_timeout(self) -> None:
        self._stop_timeout()
        self._deadline = self.loop.call_later(_BODY_TIMEOUT, self._check_body, self._received)

    def _check_body(self, received_before: int) -> None:
        # uvicorn pauses reading while the application does not consume the body.
        if self.flow.read_paused or self._received >= received_before + _BODY_PART:
            self._start_body_timeout()
        else:
            self.transport.close()

    def _stop_timeout(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def serve(
    application: ASGIApp,
    *,
    host: str,
    port: int,
    listening: Callable[[str], None],
    grace: float = _SHUTDOWN_TIMEOUT,
    concurrency: int | None = None,
    ends: Callable[[], None] = lambda: None,
) -> None:
    """Serve until cancelled; requests in progress are completed.

    Args:
        application: The ASGI application.
        host: The address to listen on.
        port: The port; 0 for any free port.
        listening: Called with the address, such as ``http://127.0.0.1:8000``, once requests are
            accepted.
        grace: Seconds that a response may take after the server was asked to stop.
        concurrency: Maximum number of concurrent connections and requests; further ones get status
            503. None: as many as the limit of open files allows.
        ends: Called when the server is asked to stop, to end responses that are endless streams.

    Raises:
        InvalidRequestError: The address cannot be used.
    """
    with listener(host, port) as accepting:
        server = QuietServer(_config(application, grace, concurrency))
        serving = asyncio.ensure_future(server.serve(sockets=[accepting]))
        listening(url_of(host, accepting.getsockname()[1]))
        try:
            await asyncio.shield(serving)
        finally:
            ends()
            server.should_exit = True
            await serving


def _config(application: ASGIApp, grace: float, concurrency: int | None) -> Config:
    # uvicorn's access log contains URLs, which may contain a token, and may have its own handlers.
    logging.getLogger("uvicorn.access").disabled = True
    return Config(
        application,
        # Not httptools: it accepts heads of any size, and loses the body of a request that offers
        # HTTP/2 (h2c), as those of Java's HttpClient do.
        http=Protocol,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        ws="none",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=concurrency,
        timeout_graceful_shutdown=round(grace) or 1,
    )


def listener(host: str, port: int) -> socket.socket:
    """Listen for TCP connections, with Nagle's algorithm off.

    Also raises the process's limit of open files to the maximum that the system allows.

    Raises:
        InvalidRequestError: The address cannot be used.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if max_connections() < most - _RESERVED:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=_QUEUE)
    except (OSError, OverflowError) as error:
        raise InvalidRequestError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another address with --host "
            "and --port."
        ) from error
    # asyncio turns Nagle's algorithm off only for sockets that name their protocol. With it, each
    # response's body on a kept-alive connection arrived 40 ms after its headers.
    return socket.socket(family, made.type, socket.IPPROTO_TCP, fileno=made.detach())
