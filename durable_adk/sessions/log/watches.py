"""Notifications of changed sessions within the process."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Hashable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from durable_adk.json_values import canonical
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.session import SessionKey

T = TypeVar("T")


@lru_cache(maxsize=64)
def topic(key: SessionKey) -> str:
    """Return a hash of the session's key, which does not reveal its user to other readers."""
    return sha256(canonical(list(key)).encode()).hexdigest()[:32]


@dataclass(eq=False, slots=True)
class _Watched:
    """A session that is watched."""

    watches: set[Any] = field(default_factory=set[Any])
    reads: dict[Hashable, asyncio.Task[Any]] = field(
        default_factory=dict[Hashable, asyncio.Task[Any]]
    )
    """Reads that have begun since the last change and have not ended, by what they read and in
    which loop."""


@dataclass(eq=False, slots=True)
class Watch:
    """One waiter with its own `asyncio.Event`, because an event belongs to one loop."""

    key: SessionKey
    _session: _Watched
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

    async def share(self, wanted: Hashable, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Read something of the session, together with its other watches that want the same now.

        A change wakes all of them at once. Call `looks` before: a read is shared only if no watch
        has been woken since it began, so what wakes this one later is in no read that it joins.

        Args:
            wanted: What `read` reads. Two that read the same return the same object.
            read: Reads it. If a caller is cancelled, the others still get its result.

        Raises:
            Exception: What `read` raised, in each watch that shares it.
        """
        reads = self._session.reads
        if len(self._session.watches) == 1:
            return await read()
        name = self._loop, wanted
        task = reads.get(name)
        if task is None:
            task = reads[name] = self._loop.create_task(read())
            task.add_done_callback(lambda done: _ended(reads, name, done))
        return await asyncio.shield(task)

    def saw(self, head: Head | None) -> None:
        """Record the session's row as the waiter has read it."""
        self._seen, self._looked = head, True

    def compare(self, heads: Mapping[SessionKey, Head]) -> None:
        """Wake the waiter if the row differs from the one it has read."""
        if self._looked and heads.get(self.key) != self._seen:
            self.wake()

    def wake(self) -> None:
        """End the wait; callable from any thread."""
        self._session.reads.clear()  # first: what is read from now on may have begun too early
        with suppress(RuntimeError):  # the waiter's loop is closed, so the wait is over
            self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # a wait that ends is its purpose
        """Wait until woken, for at most `timeout` seconds; return whether it was."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        return self._changed.is_set()


def _ended(
    reads: dict[Hashable, asyncio.Task[Any]], name: Hashable, task: asyncio.Task[Any]
) -> None:
    """Forget a read, and its error if no caller that shared it is left; its result is not kept."""
    if reads.get(name) is task:
        del reads[name]
    if not task.cancelled():
        task.exception()


class Changes:
    """Wakes the watches of a session, in any thread and event loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._watched: dict[str, _Watched] = {}

    @contextmanager
    def watch(self, key: SessionKey) -> Generator[Watch]:
        """Create a watch that changes of the session wake while the block runs."""
        name = topic(key)
        with self._lock:
            session = self._watched.setdefault(name, _Watched())
            watch = Watch(key, session)
            session.watches.add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                session.watches.remove(watch)
                if not session.watches:
                    del self._watched[name]

    def announce(self, key: SessionKey) -> None:
        """Wake all watches of a session."""
        self.announce_topic(topic(key))

    def announce_topic(self, name: str) -> None:
        """Wake all watches of the session with this `topic`."""
        with self._lock:
            session = self._watched.get(name)
            watches = list(session.watches) if session is not None else []
        for watch in watches:
            watch.wake()

    def current(self) -> list[Watch]:
        """Return all current watches."""
        with self._lock:
            return [watch for session in self._watched.values() for watch in session.watches]

    def watched(self) -> bool:
        """Return whether there are watches."""
        return bool(self._watched)
