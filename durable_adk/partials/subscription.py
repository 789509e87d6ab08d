"""The chunks received for one viewer."""

import asyncio
from collections import deque
from contextlib import suppress

from durable_adk.partials.partial import PartialEvent, decode

BUFFER = 1000
"""Maximum number of unread chunks; beyond it the oldest are dropped."""


class Subscription:
    """A viewer's chunks, in order of arrival.

    Belongs to the event loop it was created in; only `put` may be called from other threads.
    Chunks are kept as JSON, so that viewers share no objects with each other or with the model
    step (FLW-77).
    """

    def __init__(self, *, buffer: int = BUFFER) -> None:
        self._arrived: deque[bytes] = deque(maxlen=buffer)
        self._news = asyncio.Event()
        self._waking = False
        self._loop = asyncio.get_running_loop()

    async def get(self) -> PartialEvent:
        """Return the next chunk; on a broken channel wait forever rather than fail the viewer."""
        while True:
            while not self._arrived:
                self._news.clear()
                await self._news.wait()
            partial = decode(self._arrived.popleft())
            if partial is not None:
                return partial

    def drain(self) -> list[PartialEvent]:
        """Return all chunks received so far, without waiting."""
        arrived = [self._arrived.popleft() for _ in range(len(self._arrived))]
        return [partial for data in arrived if (partial := decode(data)) is not None]

    def put(self, data: bytes) -> None:
        """Add encoded chunks, each in a line; callable from any thread, never blocks."""
        self._arrived.extend(data.split(b"\n"))
        if not self._waking:  # at most one callback is pending, even if the loop is stuck
            self._waking = True
            with suppress(RuntimeError):  # the loop is closed, so there is no reader
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False  # before the event, so that a later put wakes the loop again
        self._news.set()
