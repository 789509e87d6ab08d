"""The committed events of a whole session, the statuses of its invocations, and their chunks."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Any, Self

from durable_adk.client.feed import IDLE, paged
from durable_adk.errors import SessionNotFoundError
from durable_adk.partials import PartialChannel, PartialEvent, Subscription
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.records import OPEN, InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

_CLOCKS = 10.0
"""Maximum difference in seconds between the clocks that write events and statuses."""
_RECENT = 100
"""Maximum number of invocations, besides those with events, whose status may precede a cursor."""


class RunningChunks:
    """The chunks of a session's running invocation; only one runs at a time.

    Args:
        partials: The channel; None: no chunk arrives.
        key: The session.
    """

    def __init__(self, partials: PartialChannel | None, key: SessionKey) -> None:
        self._partials = partials
        self._key = key
        self._running: str | None = None
        self._subscription: Subscription | None = None
        self._subscribed = AsyncExitStack()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._subscribed.aclose()

    async def follow(self, record: InvocationRecord) -> None:
        """Subscribe to an invocation if it runs; otherwise unsubscribe from it."""
        name, runs = record.invocation_id, record.status is Status.RUNNING
        if self._partials is None or (self._running == name) == runs:
            return
        if not runs and self._running != name:
            return
        await self._subscribed.aclose()
        self._running = self._subscription = None
        if runs:
            subscribing = self._partials.subscribe(self._key, name)
            self._subscription = await self._subscribed.enter_async_context(subscribing)
            self._running = name
        self._changed.set()

    async def get(self) -> PartialEvent:
        """Return the next chunk of the running invocation, waiting for one to run if necessary."""
        while True:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            waits = set[asyncio.Future[Any]]({changed})
            arriving = self._subscription and asyncio.ensure_future(self._subscription.get())
            if arriving is not None:
                waits.add(arriving)
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if arriving is not None and arriving.done():
                    return arriving.result()
            finally:
                for waiting in waits:
                    waiting.cancel()

    def drain(self) -> list[PartialEvent]:
        """Return all chunks received so far, without waiting."""
        return self._subscription.drain() if self._subscription else []


async def follow_session(
    sessions: SessionLog, key: SessionKey, *, after: int, chunks: RunningChunks
) -> AsyncGenerator[StoredEvent | InvocationRecord]:
    """Yield a session's committed events after a cursor, and each new status, until it is deleted.

    The status of an invocation follows the events that were committed before it. A reader may have
    been disconnected between an event and a status, and a status has no cursor. So statuses that
    may have followed the cursor's event are also yielded, although the reader may have them.

    Without a change in the session, the store is read every `IDLE` seconds.

    Args:
        sessions: The store that the workers write to.
        key: The session.
        after: The cursor: events up to this sequence number are skipped.
        chunks: Follows the running invocation.

    Raises:
        SessionNotFoundError: The session was deleted.
    """
    with sessions.watch(key) as watch:
        created = _creation(key, await sessions.look(watch))
        cursor, statuses = after, _Statuses(await _watched(sessions, key, after))
        while True:
            # Read before the events, so that all events that precede a status are read, too.
            records = [await sessions.get_invocation(key, name) for name in statuses.open]
            names = dict[str, None]()
            async with aclosing(paged(partial(sessions.read_page, key), cursor)) as new_events:
                async for stored in new_events:
                    cursor = stored.seq
                    names[stored.event.invocation_id] = None
                    yield stored
                    del stored  # otherwise it stays in memory until the next one
            for record in statuses.new(records):
                await chunks.follow(record)
                yield record
                del record
            del records
            if not statuses.add(names):
                await sessions.changed(watch, timeout=IDLE)
                _creation(key, await sessions.look(watch), created)


def _creation(
    key: SessionKey, head: Head | None, created: tuple[int, float] | None = None
) -> tuple[int, float]:
    """Return the session's creation: its epoch and time.

    Raises:
        SessionNotFoundError: The session is missing, or was created again after `created`.
    """
    found = head and (head.created_epoch, head.create_time)
    if found is None or created not in (None, found):
        raise SessionNotFoundError(f"The session {key.session_id!r} was deleted.")
    return found


class _Statuses:
    """The statuses of a session's invocations that have been yielded."""

    def __init__(self, names: Iterable[str]) -> None:
        self.open = list(names)
        """Invocations whose status may still change."""
        self._yielded = dict[str, tuple[Status, int] | None]()

    def new(self, records: Iterable[InvocationRecord | None]) -> list[InvocationRecord]:
        """Return the records of `open` whose status has changed."""
        found = list[InvocationRecord]()
        for name, record in zip(tuple(self.open), records, strict=True):
            if record is None or record.sealed:
                self.open.remove(name)
            status = record and (record.status, record.pauses)
            waits = record is not None and record.status.closed and not record.sealed
            if not waits and self._yielded.get(name) != status:
                found += [record] if record else []
            if not waits:
                self._yielded[name] = status
        return found

    def add(self, names: Iterable[str]) -> bool:
        """Add the invocations of events; return whether one of them is new."""
        new = [name for name in dict.fromkeys(names) if name not in self._yielded]
        new = [name for name in new if name not in self.open]
        self.open += new
        return bool(new)


async def _watched(sessions: SessionLog, key: SessionKey, after: int) -> list[str]:
    """Return the invocations that are open, or whose status may follow a cursor's event."""
    found = sessions.all_invocations(**key._asdict(), statuses=OPEN)
    names = [record.invocation_id async for _, record in found]
    for stored in await sessions.read_events(key, after=after - 1, upto=after) if after else ():
        since = stored.event.timestamp - _CLOCKS
        recent = await sessions.invocations_by_time(**key._asdict(), limit=_RECENT)
        names.append(stored.event.invocation_id)
        names += [record.invocation_id for _, record in recent if record.update_time >= since]
    return list(dict.fromkeys(names))
