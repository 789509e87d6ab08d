"""Streams of a feed as server-sent events, which end without ending what they show."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from sse_starlette import ServerSentEvent
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from durable_adk.errors import DurableAdkError, NoWorkerError, class_name
from durable_adk.server.feed import FeedEntry, FeedPosition
from durable_adk.server.services import ServerServices

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Renderer(Generic[T]):
    """Makes what a reader is sent."""

    entry: Callable[[T], Iterable[ServerSentEvent]]
    """Of an entry of the feed."""
    error: Callable[[str, str, str | None], ServerSentEvent]
    """Of an error that ends the feed: the name of its class, its message, and the id of the
    invocation that continues all the same, if one does."""


FIRST = 1.0
"""Seconds to wait for a stream's first entry, so that a refusal has its own status. A message that
waits for an earlier one may have none for hours."""
_closing = set[asyncio.Task[None]]()
"""Keeps tasks from being collected as garbage before they have ended."""


class Reading(Generic[T]):
    """Reads a feed in tasks of its own.

    The server cancels a response whose reader has gone again and again, until it has ended. The
    feed could not clean up meanwhile.
    """

    def __init__(self, entries: AsyncGenerator[T]) -> None:
        self._entries = entries
        self._next: asyncio.Task[T | None] | None = None
        self._closed = False

    async def first(self, seconds: float = FIRST) -> bool:
        """Wait a moment for the first entry, and return whether it has come.

        Raises:
            Exception: What the feed has raised instead of it.
        """
        reading = self._reading()
        await asyncio.wait({reading}, timeout=seconds)
        if reading.done() and reading.exception() is not None:
            self.close()
            reading.result()
        return reading.done()

    @property
    def shown(self) -> T | None:
        """The first entry, if `first` has seen it come."""
        return self._next.result() if self._next and self._next.done() else None

    async def entries(self, draining: asyncio.Event) -> AsyncGenerator[T]:
        """Yield the entries until the feed has ended, or the server is to stop."""
        stopping = asyncio.create_task(_stopping(draining))
        try:
            async with aclosing(self.entries_or_pings({stopping})) as entries:
                async for entry in entries:
                    if entry is not None:
                        yield entry
        finally:
            stopping.cancel()

    async def entries_or_pings(
        self, ends: "set[asyncio.Task[None]]", ping: float | None = None
    ) -> AsyncGenerator[T | None]:
        """Yield the entries until the feed has ended, or a task is done.

        Args:
            ends: The tasks.
            ping: Yield None after so many seconds without an entry.
        """
        try:
            while True:
                reading = self._reading()
                await asyncio.wait(
                    {reading, *ends}, timeout=ping, return_when=asyncio.FIRST_COMPLETED
                )
                if any(task.done() for task in ends) and not reading.done():
                    return
                entry = reading.result() if reading.done() else None
                if reading.done():
                    self._next = None
                    if entry is None:
                        return
                yield entry
                del entry, reading  # or it would stay in memory while nothing happens
        finally:
            self.close()

    def _reading(self) -> "asyncio.Task[T | None]":
        if self._next is None:
            self._next = asyncio.ensure_future(self._read())
        return self._next

    async def _read(self) -> T | None:
        return await anext(self._entries, None)

    def close(self) -> None:
        """Stop reading; nothing that is read is cancelled."""
        if not self._closed:
            self._closed = True
            closing = asyncio.ensure_future(self._close())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)

    async def _close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._entries.aclose()


class EventStream(Response, Generic[T]):
    """Sends the entries of a feed until it has ended, the reader has gone, or the server stops.

    An idle one costs two tasks beside those of the feed, and no timer but the ping's. The response
    of sse-starlette has four, and its own list of streams: 21 KB more for each.

    Args:
        services: Of the server.
        reading: The feed; it is closed with the response.
        render: What is sent.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        services: ServerServices,
        reading: Reading[T],
        render: Renderer[T],
        status_code: int = 200,  # FastAPI looks for it
    ) -> None:
        super().__init__(status_code=status_code, headers=_HEADERS)
        del self.headers["content-length"]
        self._services = services
        self._reading = reading
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """See base class."""
        leaving = asyncio.create_task(left(receive))
        stopping = asyncio.create_task(_stopping(self._services.draining))
        try:
            await send(self._start())
            async with aclosing(self._events({leaving, stopping})) as events:
                async for event in events:
                    await send(_body(event.encode()))
                    del event  # or it would stay in memory while nothing happens
            if not leaving.done():
                await send(_body(b"", more=False))
        finally:
            leaving.cancel()
            stopping.cancel()
            self._reading.close()

    def _start(self) -> Message:
        headers = self.raw_headers
        return {"type": "http.response.start", "status": self.status_code, "headers": headers}

    async def _events(self, ends: "set[asyncio.Task[None]]") -> AsyncGenerator[ServerSentEvent]:
        settings = self._services.settings
        retry = ServerSentEvent(retry=settings.retry_milliseconds, sep="\n")
        yield retry
        entries = self._reading.entries_or_pings(ends, settings.ping_seconds)
        try:
            async with aclosing(entries):
                async for entry in entries:
                    for event in (_PING,) if entry is None else self._render.entry(entry):
                        yield event
                        del event  # or it would stay in memory while nothing happens
                    del entry
        except DurableAdkError as error:
            name = error.invocation_id if isinstance(error, NoWorkerError) else None
            yield self._render.error(class_name(error), error.message, name)
        if self._services.draining.is_set():
            yield retry


_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_PING = ServerSentEvent(comment="ping", sep="\n")


async def _stopping(draining: asyncio.Event) -> None:
    """Wait until the server is to stop."""
    await draining.wait()


async def left(receive: Receive) -> None:
    """Wait until a reader has gone, whose request was read to the end."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def sent(data: str, *, position: FeedPosition | None, event: str | None = None) -> ServerSentEvent:
    """Return an event; the position after it is its id."""
    name = None if position is None else str(position)
    return ServerSentEvent(data, id=name, event=event, sep="\n")


def _as_event(entry: FeedEntry) -> Iterable[ServerSentEvent]:
    yield sent(entry.item.to_json(), position=entry.position, event=entry.item.type)


def _as_error(kind: str, message: str, invocation_id: str | None) -> ServerSentEvent:
    more = {"invocationId": invocation_id} if invocation_id else {}
    body = json.dumps({"error": {"type": kind, "message": message, **more}})
    return ServerSentEvent(body, event="error", sep="\n")


ITEMS = Renderer(entry=_as_event, error=_as_error)
"""Sends items as their JSON, under the names of their types."""
