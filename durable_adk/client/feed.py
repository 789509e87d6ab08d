"""The committed events of an invocation, by cursor.

The session store is the feed and sequence numbers are the cursor. So there is no subscription to
lose, and any number of clients can follow, also after the end. Only stored events are yielded
(DUR-7), each exactly once (TRAP-45).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from durable_adk.errors import (
    DurableAdkError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    LeaseLostError,
    from_detail,
)
from durable_adk.retrying import CLIENT_TIMEOUT, retrying
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.watches import Watch
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import InvocationResult

POLL = 0.5
"""Seconds between reads of the store while changes outside of it are possible."""
IDLE = 600.0
"""Seconds between reads of a store that notifies of each change."""
ORPHANED_READS = 3
"""Number of reads in a row that make an invocation an orphan; one that is being closed may look
orphaned in a single read."""
CLOSING_TIMEOUT = 3.0
"""Seconds to wait for the closing events of an invocation that ended while it was paused. They are
committed once the session is free, which may be much later; the feed ends before that."""


class RunEndedError(InvocationNotFoundError):
    """A run has ended, and its invocation is not in the session store."""


class DeliveredToOther(Exception):  # noqa: N818 - not an error: the caller follows the other one
    """The message was delivered to another, active invocation (steering)."""

    def __init__(self, recipient: str) -> None:
        super().__init__(recipient)
        self.recipient = recipient


async def follow_changes(
    sessions: SessionLog,
    key: SessionKey,
    *,
    invocation_id: str,
    after: int = 0,
    run: "asyncio.Task[object] | None" = None,
    pauses: int | None = 0,
) -> AsyncGenerator[StoredEvent | InvocationRecord, None]:
    """Yield an invocation's committed events after a cursor, and its record at each new status.

    A record comes after the events that were committed before it, so a closed invocation's is last.

    The next pause after `pauses` ends the feed; None: no pause does. `run`: a task of a `Backend`.
    """
    cursor, orphaned, until = after, 0, 0.0
    yielded: tuple[Status, int] | None = None
    read = retrying(sessions.read_progress, CLIENT_TIMEOUT, pause=POLL)
    read_page = retrying(sessions.read_page, CLIENT_TIMEOUT, pause=POLL)
    with sessions.watch(key) as watch:
        while True:
            over = run is not None and run.done()
            head, record, *page = await read(watch, invocation_id, after=cursor)
            # Once the record has the last event's number, all events can be read.
            read_more = partial(read_page, key, upto=record.end_seq if record else None)
            async with aclosing(paged(read_more, cursor, page)) as news:
                async for stored in news:
                    cursor = stored.seq
                    if stored.event.invocation_id == invocation_id:
                        yield stored
                    del stored  # or it would stay in memory while waiting
            if record is not None and record.status.closed:
                until = until or time.monotonic() + CLOSING_TIMEOUT
            ends = record is not None and _ends(record, pauses, late=time.monotonic() >= until)
            if record is not None and _is_news(record, yielded, ends=ends):
                yielded = record.status, record.pauses
                yield record
            if record is not None and ends:
                _check_failed(record)
                return
            if record is None and yielded is not None and run is None:
                raise not_in_store(invocation_id, "was opened")
            orphaned = orphaned + 1 if run is None and _is_orphan(record, head) else 0
            if orphaned > ORPHANED_READS:
                raise _died(invocation_id)
            if over and run is not None and not until:
                raise DeliveredToOther(await _recipient(key, invocation_id, run, record))
            soon, record = until or orphaned or (record is None and run is None), None
            await _wait(sessions, watch, POLL if soon else _longest(head), None if until else run)


async def paged(
    read: Callable[..., Awaitable[tuple[list[StoredEvent], bool]]],
    after: int,
    first: list[Any] | None = None,
) -> AsyncGenerator[StoredEvent]:
    """Yield all events after a cursor; a caller that stops iterating keeps a page in memory.

    Args:
        read: `SessionLog.read_page` of a session, which takes the cursor as `after`.
        after: The cursor.
        first: The first page, if it was read already: its events, and whether there are more. It is
            emptied, so that it does not stay in memory.
    """
    more = True
    while more:
        found, more = (first.pop(0), first.pop(0)) if first else await read(after=after)
        for stored in found:
            after = stored.seq
            yield stored


def _died(invocation_id: str) -> InvocationTerminatedError:
    return InvocationTerminatedError(
        f"The process that ran invocation {invocation_id!r} died before finishing it. Send the "
        "message again; the session's next message closes this invocation."
    )


def _ends(record: InvocationRecord, pauses: int | None, *, late: bool) -> bool:
    """Return whether the feed is complete, except for late closing events."""
    if not record.status.closed:
        paused = record.status is Status.PAUSED
        return paused and pauses is not None and record.pauses > pauses
    return record.sealed or late


def _is_news(record: InvocationRecord, yielded: tuple[Status, int] | None, *, ends: bool) -> bool:
    """Return whether the status differs from the last one yielded, after all its events."""
    if record.status.closed and not ends:
        return False
    return yielded != (record.status, record.pauses)


def _check_failed(record: InvocationRecord) -> None:
    """Raise the error of a failed invocation."""
    if record.status.closed and record.error is not None and record.status is not Status.CANCELLED:
        error: DurableAdkError = from_detail(record.error)
        raise error


async def _recipient(
    key: SessionKey,
    invocation_id: str,
    run: "asyncio.Task[object]",
    record: InvocationRecord | None,
) -> str:
    """Return the id of the invocation to which the message was delivered.

    Raises:
        InvocationNotFoundError: It was not delivered: the store lacks the invocation.
        LeaseLostError: Its session was deleted, or another run of it has the lease.
        DurableAdkError: It failed before it was opened.
    """
    try:
        result = await run
    except LeaseLostError as error:
        if record is not None:
            raise
        raise LeaseLostError(
            f"The session {key.session_id!r} was deleted while invocation {invocation_id!r} was "
            "running, and its events with it. Send the message again to a session that exists."
        ) from error
    name = result.steered if isinstance(result, InvocationResult) else None
    if name is None:
        raise RunEndedError(not_in_store(invocation_id, "has ended").message)
    return name


def deleted_paused(invocation_id: str) -> InvocationNotFoundError:
    """Build the error for an invocation that ended because its session was deleted at a pause."""
    return InvocationNotFoundError(
        f"Invocation {invocation_id!r} was paused when its session was deleted. It has been ended: "
        "send the message again."
    )


def not_in_store(invocation_id: str, what: str) -> InvocationNotFoundError:
    """Build the error for an invocation that has run but is not in its session."""
    return InvocationNotFoundError(
        f"Invocation {invocation_id!r} {what}, but is not in this session store: its session was "
        "deleted, or the client and the worker have different stores. Give them the same store, or "
        "send the message under another invocation id."
    )


def _is_orphan(record: InvocationRecord | None, head: Head | None) -> bool:
    """Return whether a running invocation has lost its lease, by expiry or to another one."""
    if record is None or record.status is not Status.RUNNING:
        return False
    return head is None or head.active(time.time()) != record.invocation_id


def _longest(head: Head | None) -> float:
    """Return the seconds to wait for a change; a lease's expiry changes nothing in the store."""
    if head is None or head.lease_expires_at is None:
        return IDLE
    return min(max(head.lease_expires_at - time.time(), POLL), IDLE)


async def _wait(
    sessions: SessionLog, watch: Watch, longest: float, run: "asyncio.Task[object] | None"
) -> None:
    waiting = sessions.changed(watch, timeout=longest)
    if run is None:
        await waiting
        return
    change = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait({change, run}, return_when="FIRST_COMPLETED")
    finally:
        change.cancel()
        await asyncio.gather(change, return_exceptions=True)
