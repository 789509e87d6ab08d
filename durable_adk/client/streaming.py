"""Merges an invocation's committed events with the partial events of streaming models.

Every committed event is yielded, in order. Partial events are dropped if they come after their
committed event, belong to an attempt that was given up, or follow a missing one, because text with
a gap is worse than text that stops. They are held back until the events that the model had read are
yielded. A channel may repeat chunks, also several merged into one: chunks that were already yielded
are dropped, and a missing one may still arrive. The committed event always has the whole text, so
viewers replace text and never append (EVT-15).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from durable_adk.events.event import Event
from durable_adk.partials.partial import PartialEvent
from durable_adk.partials.subscription import BUFFER
from durable_adk.sessions.records import InvocationRecord, StoredEvent

FeedItem = StoredEvent | InvocationRecord | PartialEvent
"""Item of a feed: a committed event, a chunk, or the invocation's record at each new status."""


@dataclass(frozen=True, kw_only=True)
class ShownChunk:
    """The last chunk that a reader has received."""

    event_id: str
    attempt: int
    index: int


class ChunkSource(Protocol):
    """A source of chunks, such as a `Subscription`."""

    async def get(self) -> PartialEvent:
        """Return the next chunk."""
        ...

    def drain(self) -> list[PartialEvent]:
        """Return all chunks received so far, without waiting."""
        ...


async def events_of(feed: AsyncGenerator[FeedItem]) -> AsyncGenerator[Event]:
    """Yield the events of a feed, and close it.

    Chunks carry ``custom_metadata["partial"] == {"attempt": n, "index": i}``; several that were
    merged carry their number, ``chunks``, and the index of the last one. With a greater attempt the
    text of the event restarts (TRAP-6).
    """
    async with aclosing(feed):
        async for item in feed:
            match item:
                case StoredEvent():
                    yield item.event
                case PartialEvent():
                    yield item.as_event()
                case InvocationRecord():
                    pass


async def with_partials(
    committed: AsyncIterator[StoredEvent | InvocationRecord],
    subscription: ChunkSource | None,
    *,
    after: int = 0,
    shown: ShownChunk | None = None,
) -> AsyncGenerator[FeedItem]:
    """Yield all committed events and, before each, its partial events that have arrived.

    Args:
        committed: The feed, e.g. `feed.follow_changes`. The caller closes it.
        subscription: The chunks of the same invocation; None: no partial events.
        after: The feed's cursor.
        shown: The last chunk after the cursor that the reader has received; None: none.

    Raises:
        DurableAdkError: The error of the feed, after its last event.
    """
    if subscription is None:
        async for stored in committed:
            yield stored
        return
    chunks = _Chunks(after, shown)
    item = asyncio.ensure_future(anext(committed, None))
    chunk = asyncio.ensure_future(subscription.get())
    try:
        while True:
            for partial in chunks.fitting():
                yield partial
            await asyncio.wait({item, chunk}, return_when=asyncio.FIRST_COMPLETED)
            if chunk.done():
                chunks.add(chunk.result())
                chunk = asyncio.ensure_future(subscription.get())
            if not item.done():
                continue
            stored = item.result()
            if stored is None:
                return
            for partial in subscription.drain():
                chunks.add(partial)
            for partial in chunks.before(stored):
                yield partial
            yield stored
            del stored  # or it would stay in memory while waiting
            item = asyncio.ensure_future(anext(committed, None))
    finally:
        # The feed must not be running when its owner closes it.
        item.cancel()
        chunk.cancel()
        await asyncio.gather(item, chunk, return_exceptions=True)


@dataclass
class _Progress:
    """How far the text of an event has been yielded."""

    attempt: int
    next: int = 0


class _Chunks:
    """Partial events that have arrived and not been yielded."""

    def __init__(self, after: int, shown: ShownChunk | None) -> None:
        self._cursor = after
        self._waiting: deque[PartialEvent] = deque(maxlen=BUFFER)
        self._progress: dict[str, _Progress] = {}
        if shown is not None:
            self._progress[shown.event_id] = _Progress(shown.attempt, shown.index + 1)
        self._whole: set[str] = set()

    def add(self, partial: PartialEvent) -> None:
        """Add a partial event that has arrived."""
        self._waiting.append(partial)

    def before(self, item: StoredEvent | InvocationRecord) -> Iterator[PartialEvent]:
        """Yield the partial events that belong before a committed event; none comes after it."""
        if isinstance(item, StoredEvent):
            yield from self.fitting(before=item.seq)
            self._cursor = item.seq
            self._whole.add(item.event.id)
            self._progress.pop(item.event.id, None)

    def fitting(self, *, before: int | None = None) -> Iterator[PartialEvent]:
        """Remove and yield the partial events that may be shown now, in order of arrival.

        A partial event often arrives before the committed event that its step has read, which is
        found by polling. It is held back until then.

        Args:
            before: Sequence number of the committed event that comes next, if there is one.
        """
        upto = self._cursor if before is None else before - 1
        for _ in range(len(self._waiting)):
            partial = self._waiting.popleft()
            if partial.revision > upto:
                self._waiting.append(partial)
            elif news := self._news(partial):
                yield news

    def _news(self, partial: PartialEvent) -> PartialEvent | None:
        """Return the chunk's text that continues its event; None: it has none."""
        name = partial.event.id
        place = self._progress.get(name)
        if name in self._whole or (place and partial.attempt < place.attempt):
            return None
        if place is None or partial.attempt > place.attempt:
            place = self._progress[name] = _Progress(partial.attempt)
        news = partial.rest(place.next) if partial.first <= place.next else None
        if news is not None:
            place.next = news.index + 1
        return news
