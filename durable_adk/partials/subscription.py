"""What has arrived for one viewer."""

import asyncio
from collections import deque
from contextlib import suppress

from durable_adk.partials.partial import PartialEvent, decode

BUFFER = 1000
"""Chunks kept for a viewer that does not take them; then the oldest are lost."""


class Subscription:
    """A viewer's chunks, in order of arrival.

    Belongs to the event loop it was made in; only `put` may be called from other threads. Chunks
    are kept as JSON, so no viewer shares an object with another or with the model's step (FLW-77).
    """

    def __init__(self, *, buffer: int = BUFFER) -> None:
        self._arrived: deque[bytes] = deque(maxlen=buffer)
        self._news = asyncio.Event()
        self._waking = False
        self._loop = asyncio.get_running_loop()

    async def get(self) -> PartialEvent:
        """The next chunk. Waits for ever when the channel is broken: a viewer is never failed."""
        while True:
            while not self._arrived:
                self._news.clear()
                await self._news.wait()
            partial = decode(self._arrived.popleft())
            if partial is not None:
                return partial

    def drain(self) -> list[PartialEvent]:
        """What has arrived, without waiting."""
        arrived = [self._arrived.popleft() for _ in range(len(self._arrived))]
        return [partial for data in arrived if (partial := decode(data)) is not None]

    def put(self, data: bytes) -> None:
        """Take what `encode` wrote; from any thread, never blocks."""
        self._arrived.append(data)
        if not self._waking:  # once until the loop has run: a stuck loop collects no callbacks
            self._waking = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False  # before the event, so that a put from now on wakes again
        self._news.set()
