"""Connection parameters of MCP servers, and the sessions with them."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import Any, ClassVar, TextIO, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from durable_adk.errors import AgentDefinitionError
from durable_adk.extras import require
from durable_adk.tools.mcp_tool import _library
from durable_adk.tools.mcp_tool._connection import (
    Connection,
    McpConnectionError,
    McpConnectionLostError,
)

T = TypeVar("T")
Headers: TypeAlias = tuple[tuple[str, str], ...]
Streams: TypeAlias = AbstractAsyncContextManager[Any]
"""The read and write streams of a connection."""
CLOSE_TIMEOUT = 9.0
"""Seconds for servers to exit before they are abandoned; closing takes at most 10 (RUN-11)."""
MAX_SESSIONS = 64
"""Maximum sessions of one event loop; beyond it, idle sessions are closed."""


class _Params(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    timeout: float = 5.0
    """Seconds to connect, and again for each listing of the tools.

    Calls are bounded by the tool's own timeout; ADK limits calls of a stdio server by this value.
    """

    def without_secrets(self, text: str) -> str:
        """Redact an error's text for logs and for the model (D16)."""
        return text


class StdioConnectionParams(_Params):
    """A server that runs as a child process and communicates over stdin and stdout."""

    server_params: _library.StdioServerParameters
    headers: ClassVar[None] = None

    def streams(self, headers: dict[str, str], errlog: TextIO | None) -> Streams:
        """Return a context manager that connects."""
        del headers  # stdio has no HTTP headers
        return _library.stdio_client(self.server_params, errlog=errlog or sys.stderr)

    def __str__(self) -> str:
        return self.server_params.command


class _HttpParams(_Params):
    url: str
    headers: dict[str, Any] | None = None
    sse_read_timeout: float = 300.0
    """Seconds without data from the server after which a stream is considered broken."""
    httpx_client_factory: Callable[..., Any] = _library.create_mcp_http_client
    """Creates the `httpx2` client; called with ``headers`` and, for server-sent events, ``timeout``
    and ``auth``."""

    def without_secrets(self, text: str) -> str:
        """See `_Params`."""
        return text.replace(self.url, str(self))

    def __str__(self) -> str:
        parts = urlsplit(self.url)  # user info and query may hold credentials (D16)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


class StreamableHTTPConnectionParams(_HttpParams):
    """A server that speaks streamable HTTP, the protocol's current transport."""

    terminate_on_close: bool = True
    """Whether to notify the server when the session ends."""

    @asynccontextmanager
    async def streams(
        self, headers: dict[str, str], errlog: TextIO | None
    ) -> AsyncGenerator[tuple[Any, ...]]:
        """Return a context manager that connects."""
        del errlog  # no process that writes to stderr
        async with self.httpx_client_factory(headers=headers) as client:
            # Order: connect, read, write, pool.
            client.timeout = (self.timeout, self.sse_read_timeout, self.timeout, self.timeout)
            transport = _library.streamable_http_client(
                self.url, http_client=client, terminate_on_close=self.terminate_on_close
            )
            async with transport as streams:
                yield streams


class SseConnectionParams(_HttpParams):
    """A server that speaks HTTP with server-sent events, the protocol's original transport."""

    def streams(self, headers: dict[str, str], errlog: TextIO | None) -> Streams:
        """Return a context manager that connects."""
        del errlog  # no process that writes to stderr
        return _library.sse_client(
            self.url,
            headers=headers,
            timeout=self.timeout,
            sse_read_timeout=self.sse_read_timeout,
            httpx_client_factory=self.httpx_client_factory,
        )


StdioServerParameters: TypeAlias = _library.StdioServerParameters
SseServerParams: TypeAlias = SseConnectionParams
StreamableHTTPServerParams: TypeAlias = StreamableHTTPConnectionParams
"""ADK's older names."""

ConnectionParams: TypeAlias = (
    StdioConnectionParams | SseConnectionParams | StreamableHTTPConnectionParams
)


class MCPSessionManager:
    """Open sessions: one for each event loop and set of headers (TOL-29)."""

    def __init__(
        self,
        connection_params: "ConnectionParams | _library.StdioServerParameters",
        errlog: TextIO | None = None,
        *,
        on_tools_changed: Callable[[Headers], None] | None = None,
    ) -> None:
        """Set up the manager; no session is opened before the first call.

        Args:
            connection_params: The server.
            errlog: Destination for the stderr of a stdio server; this process's stderr by default.
            on_tools_changed: Called with the session's headers when the server reports a change,
                and when the session is lost: the server may have restarted with other tools.

        Raises:
            AgentDefinitionError: The mcp library is not installed.
        """
        require("mcp", AgentDefinitionError)
        if isinstance(connection_params, _library.StdioServerParameters):
            connection_params = StdioConnectionParams(server_params=connection_params)
        self.connection_params: ConnectionParams = connection_params
        self.errlog = errlog
        self._on_tools_changed = on_tools_changed
        self._pools: dict[asyncio.AbstractEventLoop, dict[Headers, Connection]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def call(
        self,
        function: Callable[[_library.McpClientSession], Awaitable[T]],
        *,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it also drops the session
    ) -> T:
        """Call a function with a session; if the session has ended, retry once with a new one.

        Args:
            function: The function to call. It may run twice, and so may its effects.
            headers: HTTP headers in addition to those of the parameters.
            timeout: Seconds to wait for a response once the session is open; None: no limit.

        Raises:
            McpConnectionError: The server cannot be reached, or did not respond in time.
            Exception: The exception that the function raised.
        """
        key = self.key(headers)
        try:
            return await self._attempt(key, function, timeout)
        except McpConnectionLostError:
            return await self._attempt(key, function, timeout)

    async def _attempt(
        self,
        key: Headers,
        function: Callable[[_library.McpClientSession], Awaitable[T]],
        timeout: float | None,  # noqa: ASYNC109 - as above
    ) -> T:
        connection = self._connection(key)

        async def bounded(session: _library.McpClientSession) -> T:
            try:
                async with asyncio.timeout(timeout):
                    return await function(session)
            except TimeoutError as error:
                raise McpConnectionError(f"no answer in {timeout or inf:g} s") from error

        try:
            return await connection.call(bounded)
        except McpConnectionError as error:
            self._drop(key, connection)
            reason = self.connection_params.without_secrets(str(error))
            raise type(error)(f"MCP server {self.connection_params}: {reason}") from error

    def key(self, headers: dict[str, str] | None) -> Headers:
        """Return all headers of a session, including those of the parameters."""
        return tuple(sorted({**(self.connection_params.headers or {}), **(headers or {})}.items()))

    def _connection(self, key: Headers) -> Connection:
        for loop in [loop for loop in self._pools if loop.is_closed()]:
            del self._pools[loop]
        pool = self._pools.setdefault(asyncio.get_running_loop(), {})
        connection = pool.pop(key, None) or self._open(key)
        pool[key] = connection  # inserted last, because it is the most recently used
        idle = [other for other, item in pool.items() if not item.calls and other != key]
        for other in idle[: max(len(pool) - MAX_SESSIONS, 0)]:
            self._end(pool.pop(other))
        return connection

    def _open(self, key: Headers) -> Connection:
        return Connection(self._session(key), timeout=self.connection_params.timeout)

    @asynccontextmanager
    async def _session(self, key: Headers) -> AsyncGenerator[_library.McpClientSession]:
        async def heed(message: Any) -> None:
            changed = isinstance(message, _library.types.ToolListChangedNotification)
            if changed and self._on_tools_changed:
                self._on_tools_changed(key)

        transport = self.connection_params.streams(dict(key), self.errlog)
        async with (
            transport as streams,
            _library.McpClientSession(*streams, message_handler=heed) as session,
        ):
            await session.initialize()
            yield session

    def _drop(self, key: Headers, connection: Connection) -> None:
        """Remove a session from the pool, unless it has already been replaced."""
        pool = self._pools.get(asyncio.get_running_loop(), {})
        if pool.get(key) is connection:
            del pool[key]
            self._end(connection)
            if self._on_tools_changed:
                self._on_tools_changed(key)

    def _end(self, connection: Connection) -> None:
        task = connection.stop()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Close all sessions, within 10 seconds; a later call opens new ones."""
        here = asyncio.get_running_loop()
        for connection in self._pools.pop(here, {}).values():
            self._end(connection)
        for loop, pool in list(self._pools.items()):
            for connection in pool.values():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(connection.stop)
        self._pools.clear()
        mine = {task for task in self._ending if task.get_loop() is here}
        if mine:
            _, late = await asyncio.wait(mine, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=0.5)
