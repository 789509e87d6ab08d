"""The committed events of an invocation, by cursor.

The session store is the feed: a sequence number is the cursor, so following needs no subscription
that could be lost, and any number of clients may follow, also after the end. Nothing is shown that
is not stored (DUR-7), nothing twice and nothing left out (TRAP-45).
"""

import asyncio
from collections.abc import AsyncGenerator

from durable_adk.errors import (
    DurableAdkError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    StoreUnavailableError,
    from_detail,
)
from durable_adk.sessions.base_session_service import (
    BaseSessionService,
    InvocationRecord,
    Status,
    StoredEvent,
)
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationResult

POLL = 1.0
"""Seconds after which the feed looks even if nothing woke it."""
ORPHANED_LOOKS = 3
"""An invocation that is just being closed looks like an orphan once."""
PATIENCE = 60.0
"""Seconds that the store may be away."""
SEALING = 3.0
"""Seconds that a feed waits for the last events of an invocation that has ended while it was
paused: they come when the session is free, which may be much later. Its end is told before."""


class DeliveredToOther(Exception):  # noqa: N818 - no error: what comes next is to be followed there
    """What comes of a message is in another invocation, which has heard it."""

    def __init__(self, listener: str) -> None:
        super().__init__(listener)
        self.listener = listener


async def follow(
    sessions: BaseSessionService,
    key: SessionKey,
    *,
    invocation_id: str,
    after: int = 0,
    run: "asyncio.Task[object] | None" = None,
    pauses: int = 0,
) -> AsyncGenerator[StoredEvent, None]:
    """Yield an invocation's committed events beyond a cursor until it is sealed, or paused.

    Args:
        sessions: The store the invocation's worker writes to.
        key: The session.
        invocation_id: May not be open yet (enqueued).
        after: Events up to this sequence number are left out.
        run: What runs the invocation. When it ends without closing the invocation, e.g. because
            the request was refused or the workflow terminated, its exception is raised.
        pauses: How often the invocation had been paused at the cursor; the next pause ends this.

    Raises:
        Elsewhere: Another invocation has heard the message.
        DurableAdkError: The invocation failed; its events have been yielded before, see SEALING.
    """
    cursor, orphaned = after, 0
    loop, until = asyncio.get_running_loop(), 0.0
    while True:
        over = run is not None and run.done()
        record, news = await _look(sessions, key, invocation_id, cursor)
        for stored in news:
            cursor = stored.seq
            if stored.event.invocation_id == invocation_id:
                yield stored
        if record is not None and record.status.closed:
            until = until or loop.time() + SEALING
        if record is not None and _ends(record, pauses, late=loop.time() >= until):
            return
        if until:
            await _wait(sessions, key, cursor, None)
            continue
        orphaned = orphaned + 1 if run is None and await _orphan(sessions, key, record) else 0
        if orphaned > ORPHANED_LOOKS:
            raise InvocationTerminatedError(
                f"Whatever ran invocation {invocation_id!r} has ended without it. The session's "
                "next message ends it; send the message again."
            )
        if over and run is not None:
            raise DeliveredToOther(_listener(invocation_id, await run))
        await _wait(sessions, key, cursor, run)


def _ends(record: InvocationRecord, pauses: int, *, late: bool) -> bool:
    """Whether there is nothing more to follow, but for seals for which it is too late.

    Raises:
        DurableAdkError: The invocation failed.
    """
    if not record.status.closed:
        return record.status is Status.PAUSED and record.pauses > pauses
    if not record.sealed and not late:
        return False
    if record.error is not None and record.status is not Status.CANCELLED:
        error: DurableAdkError = from_detail(record.error)
        raise error
    return True


def _listener(invocation_id: str, result: object) -> str:
    """The invocation that has heard the message of one that has no events.

    Raises:
        InvocationNotFoundError: None has: `result` is of an invocation that the store lacks.
    """
    name = result.steered if isinstance(result, InvocationResult) else None
    if name is None:
        raise InvocationNotFoundError(
            f"Invocation {invocation_id!r} has ended, but this session store does not know it. "
            "Give the client and the worker the same store."
        )
    return name


async def _orphan(
    sessions: BaseSessionService, key: SessionKey, record: InvocationRecord | None
) -> bool:
    """Whether the invocation runs by the record, and has lost its lease to time or to another."""
    if record is None:
        return False
    active = await sessions.active_invocation(key)
    return active is None or active.invocation_id != record.invocation_id


async def _look(
    sessions: BaseSessionService, key: SessionKey, invocation_id: str, cursor: int
) -> tuple[InvocationRecord | None, list[StoredEvent]]:
    """The invocation and the events beyond the cursor; waits for a store that is away."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while True:
        try:
            record = await sessions.get_invocation(key, invocation_id)
            # Read after the record: when that is sealed, all events are there to be read.
            upto = record.end_seq if record else None
            return record, await sessions.read_events(key, after=cursor, upto=upto)
        except StoreUnavailableError:
            if loop.time() > until:
                raise
        await asyncio.sleep(POLL)


async def _wait(
    sessions: BaseSessionService, key: SessionKey, cursor: int, run: "asyncio.Task[object] | None"
) -> None:
    change = asyncio.ensure_future(sessions.wait_for_change(key, after=cursor, timeout=POLL))
    try:
        await asyncio.wait({change, run} if run else {change}, return_when="FIRST_COMPLETED")
    finally:
        change.cancel()
        await asyncio.gather(change, return_exceptions=True)
