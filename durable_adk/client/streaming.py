"""An invocation's committed events, with the chunks of those that are still being written.

Every committed event comes through, in order; of the chunks only those that fit: none before what
the model had read when it wrote them, none after their whole event, none of an attempt that was
given up, and none behind a hole, because text with a hole is worse than text that stops. The
committed event has the whole text in every case, so a viewer replaces and never appends (EVT-15).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

from durable_adk.events.event import Event
from durable_adk.partials.partial import PartialEvent
from durable_adk.partials.subscription import BUFFER, Subscription
from durable_adk.sessions.base_session_service import StoredEvent

_HOLE = -1
"""In place of the next index: none fits any more."""


async def with_partials(
    committed: AsyncIterator[StoredEvent], subscription: Subscription, *, after: int = 0
) -> AsyncGenerator[Event]:
    """Yield all committed events and, before each, its chunks that have arrived.

    Chunks carry ``custom_metadata["partial"] == {"attempt": n, "index": i}``. With a greater
    attempt the text of the event begins anew (TRAP-6).

    Args:
        committed: The feed, e.g. `feed.follow`, with the user's events. The caller closes it.
        subscription: The chunks of the same invocation.
        after: The feed's cursor.

    Raises:
        DurableAdkError: What the feed raises, after its last event.
    """
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
        # The feed must have stopped before its owner closes it.
        item.cancel()
        chunk.cancel()
        await asyncio.gather(item, chunk, return_exceptions=True)


@dataclass
class _Place:
    """Where the text of an event has got to."""

    attempt: int
    next: int = 0


class _Chunks:
    """Chunks that wait for their turn."""

    def __init__(self, after: int) -> None:
        self._cursor = after
        self._waiting: deque[PartialEvent] = deque(maxlen=BUFFER)
        self._places: dict[str, _Place] = {}
        self._whole: set[str] = set()

    def add(self, partial: PartialEvent) -> None:
        """Take what has arrived."""
        self._waiting.append(partial)

    def close(self, stored: StoredEvent) -> None:
        """Note that an event has been shown."""
        self._cursor = stored.seq
        self._whole.add(stored.event.id)
        self._places.pop(stored.event.id, None)

    def fitting(self, *, before: int | None = None) -> Iterator[Event]:
        """Take out the chunks whose turn it is, in order of arrival.

        A chunk often overtakes the committed event its step has read, which is noticed by polling;
        it then waits for it.

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
        place = self._places.get(name)
        if name in self._whole or (place and partial.attempt < place.attempt):
            return False
        if place is None or partial.attempt > place.attempt:
            place = self._places[name] = _Place(partial.attempt)
        fits = partial.index == place.next
        place.next = place.next + 1 if fits else _HOLE
        return fits
