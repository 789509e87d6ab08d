"""Merging an invocation's committed events with the partial events of streaming models.

Every committed event is yielded, in order. Partial events are dropped if they come after their
committed event, belong to an attempt that was given up, or follow a missing one, because text with
a gap is worse than text that stops. They are held back until the events that the model had read are
yielded. The committed event always has the whole text, so viewers replace, never append (EVT-15).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

from durable_adk.events.event import Event
from durable_adk.partials.partial import PartialEvent
from durable_adk.partials.subscription import BUFFER, Subscription
from durable_adk.sessions.records import StoredEvent

_GAP = -1
"""In place of the next index: no later chunk is yielded."""


async def with_partials(
    committed: AsyncIterator[StoredEvent], subscription: Subscription | None, *, after: int = 0
) -> AsyncGenerator[Event]:
    """Yield all committed events and, before each, its partial events that have arrived.

    Chunks carry ``custom_metadata["partial"] == {"attempt": n, "index": i}``. With a greater
    attempt the text of the event begins anew (TRAP-6).

    Args:
        committed: The feed, e.g. `feed.follow`, with the user's events. The caller closes it.
        subscription: The chunks of the same invocation; None: no partial events.
        after: The feed's cursor.

    Raises:
        DurableAdkError: What the feed raises, after its last event.
    """
    if subscription is None:
        async for stored in committed:
            yield stored.event
        return
    chunks = _Chunks(after)
    item = asyncio.ensure_future(anext(committed, None))
    chunk = asyncio.ensure_future(subscription.get())
    try:
        while True:
            for event in chunks.fitting():
                yield event
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
            for event in chunks.fitting(before=stored.seq):
                yield event
            yield stored.event
            chunks.close(stored)
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

    def __init__(self, after: int) -> None:
        self._cursor = after
        self._waiting: deque[PartialEvent] = deque(maxlen=BUFFER)
        self._progress: dict[str, _Progress] = {}
        self._whole: set[str] = set()

    def add(self, partial: PartialEvent) -> None:
        """Add a partial event that has arrived."""
        self._waiting.append(partial)

    def close(self, stored: StoredEvent) -> None:
        """Note that a committed event has been yielded."""
        self._cursor = stored.seq
        self._whole.add(stored.event.id)
        self._progress.pop(stored.event.id, None)

    def fitting(self, *, before: int | None = None) -> Iterator[Event]:
        """Remove and yield the partial events that may be shown now, in order of arrival.

        A partial event often arrives before the committed event that its step has read, which is
        found by polling; it is held back until then.

        Args:
            before: Sequence number of the committed event that comes next, if there is one.
        """
        upto = self._cursor if before is None else before - 1
        for _ in range(len(self._waiting)):
            partial = self._waiting.popleft()
            if partial.revision > upto:
                self._waiting.append(partial)
            elif self._fits(partial):
                yield partial.as_event()

    def _fits(self, partial: PartialEvent) -> bool:
        name = partial.event.id
        place = self._progress.get(name)
        if name in self._whole or (place and partial.attempt < place.attempt):
            return False
        if place is None or partial.attempt > place.attempt:
            place = self._progress[name] = _Progress(partial.attempt)
        fits = partial.index == place.next
        place.next = place.next + 1 if fits else _GAP
        return fits
