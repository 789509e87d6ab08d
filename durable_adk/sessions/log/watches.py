"""Notifications of changed sessions within the process."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from threading import Lock

from durable_adk.json_values import canonical
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.session import SessionKey


@lru_cache(maxsize=64)
def topic(key: SessionKey) -> str:
    """Return a hash of the session's key, which does not reveal its user to other readers."""
    return sha256(canonical(list(key)).encode()).hexdigest()[:32]


@dataclass(eq=False, slots=True)
class Watch:
    """One waiter with its own `asyncio.Event`, because an event belongs to one loop."""

    key: SessionKey
    _seen: Head | None = None
    _looked: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    @property
    def active(self) -> bool:
        """Whether an invocation was running in the session at the waiter's last read."""
        return self._seen is not None and self._seen.lease_invocation_id is not None

    def looks(self) -> None:
        """Forget changes so far: the waiter is about to read the session's row."""
        self._changed.clear()

    def saw(self, head: Head | None) -> None:
        """Record the session's row as the waiter has read it."""
        self._seen, self._looked = head, True

    def compare(self, heads: Mapping[SessionKey, Head]) -> None:
        """Wake the waiter if the row differs from the one it has read."""
        if self._looked and heads.get(self.key) != self._seen:
            self.wake()

    def wake(self) -> None:
        """End the wait; callable from any thread."""
        with suppress(RuntimeError):  # the waiter's loop is closed, so the wait is over
            self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # a wait that ends is its purpose
        """Wait until woken, for at most `timeout` seconds; return whether it was."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        return self._changed.is_set()


class Changes:
    """Wakes the watches of a session, in any thread and event loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._watches: dict[str, set[Watch]] = {}

    @contextmanager
    def watch(self, key: SessionKey) -> Generator[Watch]:
        """Create a watch that changes of the session wake while the block runs."""
        watch, name = Watch(key), topic(key)
        with self._lock:
            self._watches.setdefault(name, set()).add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                self._watches[name].remove(watch)
                if not self._watches[name]:
                    del self._watches[name]

    def announce(self, key: SessionKey) -> None:
        """Wake all watches of a session."""
        self.announce_topic(topic(key))

    def announce_topic(self, name: str) -> None:
        """Wake all watches of the session with this `topic`."""
        with self._lock:
            watches = list(self._watches.get(name, ()))
        for watch in watches:
            watch.wake()

    def current(self) -> list[Watch]:
        """Return all current watches."""
        with self._lock:
            return [watch for watches in self._watches.values() for watch in watches]

    def watched(self) -> bool:
        """Return whether there are watches."""
        return bool(self._watches)
