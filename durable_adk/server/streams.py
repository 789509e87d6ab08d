"""Server-sent event streams of a feed; the end of a stream does not end the run."""

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
    """Converts a feed to server-sent events."""

    entry: Callable[[T], Iterable[ServerSentEvent]]
    """Converts an entry of the feed."""
    error: Callable[[str, str, str | None], ServerSentEvent]
    """Converts an error that ends the feed: the name of its class, its message, and the id of the
    invocation if it continues nevertheless."""


FIRST = 1.0
"""Seconds to wait for a stream's first entry, so that a refusal gets its own HTTP status. A message
that waits for an earlier one may have no entry for hours."""
_closing = set[asyncio.Task[None]]()
"""Keeps tasks from being garbage-collected before they have ended."""


class Reading(Generic[T]):
    """Reads a feed in separate tasks.

    When a client disconnects, the server cancels the response repeatedly until it ends, which would
    interrupt the feed's cleanup.
    """

    def __init__(self, entries: AsyncGenerator[T]) -> None:
        self._entries = entries
        self._next: asyncio.Task[T | None] | None = None
        self._closed = False

    async def first(self, seconds: float = FIRST) -> bool:
        """Wait a short time for the first entry, and return whether it has arrived.

        Raises:
            Exception: The feed's error, if it raised one instead.
        """
        reading = self._reading()
        await asyncio.wait({reading}, timeout=seconds)
        if reading.done() and reading.exception() is not None:
            self.close()
            reading.result()
        return reading.done()

    @property
    def shown(self) -> T | None:
        """The first entry, if it has arrived in `first`."""
        return self._next.result() if self._next and self._next.done() else None

    async def entries(self, draining: asyncio.Event) -> AsyncGenerator[T]:
        """Yield the entries until the feed has ended, or the server stops."""
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
            ping: Seconds without an entry after which to yield None.
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
                del entry, reading  # otherwise it stays in memory until the next one
        finally:
            self.close()

    def _reading(self) -> "asyncio.Task[T | None]":
        if self._next is None:
            self._next = asyncio.ensure_future(self._read())
        return self._next

    async def _read(self) -> T | None:
        return await anext(self._entries, None)

    def close(self) -> None:
        """Stop reading; the invocation is not cancelled."""
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
    """Sends the entries of a feed until it has ended, the client disconnects, or the server stops.

    An idle stream needs two tasks besides those of the feed, and only the ping's timer. The
    response of sse-starlette has four tasks and its own list of streams: 21 KB more for each.

    Args:
        services: The server's services.
        reading: The feed; it is closed with the response.
        render: The conversion to events.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        services: ServerServices,
        reading: Reading[T],
        render: Renderer[T],
        status_code: int = 200,  # an attribute that FastAPI requires
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
                    del event  # otherwise it stays in memory until the next one
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
                        del event  # otherwise it stays in memory until the next one
                    del entry
        except DurableAdkError as error:
            name = error.invocation_id if isinstance(error, NoWorkerError) else None
            yield self._render.error(class_name(error), error.message, name)
        if self._services.draining.is_set():
            yield retry


_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_PING = ServerSentEvent(comment="ping", sep="\n")


async def _stopping(draining: asyncio.Event) -> None:
    """Wait until the server stops."""
    await draining.wait()


async def left(receive: Receive) -> None:
    """Wait until the client disconnects; the request must have been read to its end."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def sent(data: str, *, position: FeedPosition | None, event: str | None = None) -> ServerSentEvent:
    """Return an event; its id is the position after it."""
    name = None if position is None else str(position)
    return ServerSentEvent(data, id=name, event=event, sep="\n")


def _as_event(entry: FeedEntry) -> Iterable[ServerSentEvent]:
    yield sent(entry.item.to_json(), position=entry.position, event=entry.item.type)


def _as_error(kind: str, message: str, invocation_id: str | None) -> ServerSentEvent:
    more = {"invocationId": invocation_id} if invocation_id else {}
    body = json.dumps({"error": {"type": kind, "message": message, **more}})
    return ServerSentEvent(body, event="error", sep="\n")


ITEMS = Renderer(entry=_as_event, error=_as_error)
"""Sends items as JSON, with their types as event names."""
