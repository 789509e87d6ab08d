"""The chunks received for one viewer."""

import asyncio
from collections import deque
from contextlib import suppress
from threading import Lock

from durable_adk.partials.partial import PartialEvent, decode

BUFFER = 1000
"""Maximum number of unread chunks; beyond it the oldest are dropped."""
BUFFER_BYTES = 2**20
"""Maximum total bytes of unread chunks; typical ones, of less than 1 KB each, take less."""


class Subscription:
    """A viewer's chunks, in order of arrival.

    Belongs to the event loop it was created in; only `put` may be called from other threads.
    Chunks are kept as JSON, so that viewers share no objects with each other or with the model
    step (FLW-77).
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._arrived: deque[bytes] = deque()
        self._size = 0
        self._wakeup = asyncio.Event()
        self._waking = False
        self._loop = asyncio.get_running_loop()

    async def get(self) -> PartialEvent:
        """Return the next chunk; on a broken channel wait forever rather than fail the viewer."""
        while True:
            while not self._arrived:
                self._wakeup.clear()
                await self._wakeup.wait()
            if (data := self._next()) is not None and (partial := decode(data)) is not None:
                return partial

    def drain(self) -> list[PartialEvent]:
        """Return all chunks received so far, without waiting."""
        with self._lock:
            arrived, self._size = list(self._arrived), 0
            self._arrived.clear()
        return [partial for data in arrived if (partial := decode(data)) is not None]

    def put(self, data: bytes) -> None:
        """Add encoded chunks, each in a line; callable from any thread, never blocks."""
        with self._lock:
            for one in data.split(b"\n"):
                self._arrived.append(one)
                self._size += len(one)
            while len(self._arrived) > BUFFER or self._size > BUFFER_BYTES:
                self._size -= len(self._arrived.popleft())
        if not self._waking:  # at most one callback is pending, even if the loop is stuck
            self._waking = True
            with suppress(RuntimeError):  # the loop is closed, so there is no reader
                self._loop.call_soon_threadsafe(self._wake)

    def _next(self) -> bytes | None:
        with self._lock:  # `put` may drop the last one meanwhile
            if not self._arrived:
                return None
            data = self._arrived.popleft()
            self._size -= len(data)
            return data

    def _wake(self) -> None:
        self._waking = False  # before the event, so that a later put wakes the loop again
        self._wakeup.set()
