"""One session with an MCP server, in its own task.

The library's cancel scopes must be exited by the task that entered them. Calls come from many
tasks, and the first of them may be cancelled while others continue; so none of them owns the
session.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import TypeVar, cast

from durable_adk.tools.mcp_tool import _library

T = TypeVar("T")
CANCEL_TIMEOUT = 1.0
"""Seconds that a cancelled call may take to notify the server."""


class McpConnectionError(ConnectionError):
    """The MCP server cannot be reached, or does not respond."""


class McpConnectionLostError(McpConnectionError):
    """The connection to the MCP server was lost."""


class Connection:
    """A connection that starts to open when it is created; `call` waits until it is open."""

    def __init__(
        self, session: AbstractAsyncContextManager[_library.McpClientSession], *, timeout: float
    ) -> None:
        """Start to open the session.

        Args:
            session: Opens and initializes the session when it is entered.
            timeout: Seconds that opening may take.
        """
        loop = asyncio.get_running_loop()
        self._session: asyncio.Future[_library.McpClientSession] = loop.create_future()
        self._session.add_done_callback(lambda future: future.exception())
        self._stop = asyncio.Event()
        self._deadline = loop.call_later(timeout, self._give_up, timeout)
        # An empty context: the connection outlives the call that opened it, and that call's trace.
        self._life = loop.create_task(self._live(session), context=Context())
        self.calls = 0
        """Number of calls in progress."""

    async def call(self, function: Callable[[_library.McpClientSession], Awaitable[T]]) -> T:
        """Call a function with the session.

        Raises:
            McpConnectionError: The session could not be opened.
            McpConnectionLostError: The session ended, before the call or during it.
            Exception: The exception that the function raised.
        """
        self.calls += 1
        try:
            session = await asyncio.shield(self._session)
            return await self._call(function, session)
        except McpConnectionError:
            raise
        except Exception as error:
            if _library.is_end(error):
                raise McpConnectionLostError(_cause(error)) from error
            raise
        finally:
            self.calls -= 1

    async def _call(
        self,
        function: Callable[[_library.McpClientSession], Awaitable[T]],
        session: _library.McpClientSession,
    ) -> T:
        """Await the function while the session is alive: it may never return after the loss."""
        work = asyncio.ensure_future(function(session))
        try:
            await asyncio.wait({work, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise McpConnectionLostError("the connection has ended")
            return work.result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=CANCEL_TIMEOUT)

    def stop(self) -> "asyncio.Task[None]":
        """Start to close; the returned task ends when the connection is closed."""
        self._stop.set()
        if not self._session.done():
            self._fail("it was closed")
        return self._life

    async def _live(self, session: AbstractAsyncContextManager[_library.McpClientSession]) -> None:
        try:
            async with session as opened:
                self._deadline.cancel()
                if not self._session.done():
                    self._session.set_result(opened)
                await self._stop.wait()
        except (asyncio.CancelledError, Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - transports raise anything, often in groups
            self._deadline.cancel()
            if not self._session.done():
                self._session.set_exception(McpConnectionError(_cause(error)))

    def _give_up(self, timeout: float) -> None:
        self._fail(f"no answer in {timeout:g} s")

    def _fail(self, reason: str) -> None:
        self._session.set_exception(McpConnectionError(reason))
        self._deadline.cancel()
        self._life.cancel()


def _cause(error: BaseException) -> str:
    """Return an error's message; for a group, that of the first error."""
    if isinstance(error, BaseExceptionGroup):
        return _cause(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error) or type(error).__name__
