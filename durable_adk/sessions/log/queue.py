"""Rules for the queue of a session's lease, as functions over a store's tables.

An invocation that finds the session busy takes a ticket in the same transaction; ticket numbers are
the order of arrival (D7). `Head.waiting` counts the tickets, so an empty queue needs no query. The
cost of an attempt does not grow with the number of tickets.
"""

import time
from dataclasses import replace

from durable_adk.errors import QueueFullError, SessionBusyError
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.transactions import Transactions
from durable_adk.sessions.records import (
    InvocationRecord,
    QueueBounds,
    QueuePosition,
    Status,
    Ticket,
)
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables

TURN = 0.2
"""Minimum duration of a turn, in seconds, for the estimate of a ticket's waiting time."""

LOOKED_AT = 20
"""Number of first tickets among which a batch of steps looks for a steering message."""
_REMEDY = "when some have run, send again under a new invocation id."


class Queue(Transactions):
    """Operations on the tickets of invocations that are queued for a session's lease."""

    async def check_turn(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        lease_owner: str,
        position: QueuePosition | None = None,
        resumes: bool = False,
    ) -> None:
        """Check whether another attempt to take the lease is worthwhile.

        Costs a few small reads, regardless of the queue's length. Passes if there is no ticket, or
        if the ticket must be renewed or moved.

        Args:
            key: The session.
            invocation_id: The invocation that holds the ticket.
            lease_owner: The ticket's lease owner.
            position: As for `open_invocation`.
            resumes: Whether the invocation is resumed, which needs the lease but no turn.

        Raises:
            SessionBusyError: It is not the ticket's turn.
        """
        busy = await self._store.read(
            lambda tables: turn(
                tables,
                key,
                invocation_id=invocation_id,
                lease_owner=lease_owner,
                position=position,
                resumes=resumes,
                now=time.time(),
            )
        )
        if busy is not None:
            raise busy

    async def waiting(self, key: SessionKey, *, limit: int | None = None) -> list[Ticket]:
        """List the tickets that have not expired, in the order of their turns.

        Tickets of dead lease owners are included until an invocation behind them checks.
        """
        return await self._store.read(lambda tables: live(tables, key, time.time(), limit=limit))

    async def has_receiver(self, key: SessionKey) -> bool:
        """Return whether an invocation is active, or a paused one waits for a message (GR-173)."""
        now = time.time()

        def found(tables: Tables) -> bool:
            head = tables.head(key)
            return head is not None and bool(head.active(now) or recipient(tables, key, head))

        return await self._store.read(found)

    async def may_go_ahead(
        self, key: SessionKey, *, invocation_id: str, kind: str, prefix: str, after: str
    ) -> bool:
        """Return whether no message waits to steer the session, and no later note forbids it.

        Args:
            key: The session.
            invocation_id: The invocation.
            kind: Kind of the notes.
            prefix: What the names of those that count begin with.
            after: Notes count whose names sort after it.
        """

        def undisturbed(tables: Tables) -> bool:
            notes = tables.notes(key, invocation_id, kind, after=after, limit=1)
            waiting = live(tables, key, time.time(), limit=LOOKED_AT)
            steers = (tables.message(key, one.invocation_id) is not None for one in waiting)
            return not any(note.name.startswith(prefix) for note in notes) and not any(steers)

        return await self._store.read(undisturbed)

    async def leave_queue(self, key: SessionKey, *, invocation_id: str, lease_owner: str) -> None:
        """Drop the lease owner's ticket for the invocation, if there is one.

        Called by an owner that gives up, or on behalf of a dead one.
        """
        await self._store.write(
            lambda tables: drop(tables, key, invocation_id, lease_owner, time.time())
        )


def held(head: Head, now: float) -> str | None:
    """Return why the lease is held; None if it is free."""
    active = head.active(now)
    return active and f"The invocation {active!r} is active in this session."


def behind(
    tables: Tables,
    key: SessionKey,
    head: Head,
    *,
    invocation_id: str,
    position: QueuePosition | None,
    now: float,
) -> str | None:
    """Return why another invocation is next; None if it is this invocation's turn."""
    first = next(iter(live(tables, key, now, limit=1)), None) if head.waiting else None
    if first is None or first.invocation_id == invocation_id:
        return None
    if first.position > (QueuePosition.LAST if position is None else position):
        return None
    return (
        f"The invocation {first.invocation_id!r} waits for this session and comes first, "
        "none is active just now."
    )


def recipient(tables: Tables, key: SessionKey, head: Head) -> InvocationRecord | None:
    """Return the paused invocation that receives the next message of the user, or None (GR-173)."""
    for name in reversed(head.awaiting_ids):
        record = tables.invocation(key, name)
        if record is not None and record.status is Status.PAUSED:
            return record
    return None


def live(tables: Tables, key: SessionKey, now: float, *, limit: int | None = None) -> list[Ticket]:
    """Read the tickets that have not expired, in order."""
    return tables.tickets(key, live_at=now, limit=limit)


def turn(
    tables: Tables,
    key: SessionKey,
    *,
    invocation_id: str,
    lease_owner: str,
    position: QueuePosition | None,
    resumes: bool,
    now: float,
) -> SessionBusyError | None:
    """Return the error for a ticket whose turn has not come; see `Queue.check_turn`."""
    head, ticket = tables.head(key), tables.ticket(key, invocation_id)
    if head is None or ticket is None or not _is_current(ticket, lease_owner, position, now):
        return None
    reason = held(head, now)
    if reason is None and not resumes:
        reason = behind(tables, key, head, invocation_id=invocation_id, position=position, now=now)
    if reason is None and not resumes and head.awaiting_message is not None:
        reason = _awaited(tables, key, head, invocation_id)
    return None if reason is None else busy(tables, key, head, reason, ticket, now=now)


def _awaited(tables: Tables, key: SessionKey, head: Head, invocation_id: str) -> str | None:
    """Return why a message has no turn that a paused invocation is to receive."""
    if tables.message(key, invocation_id) is None:
        return None
    record = recipient(tables, key, head)
    return record and f"The invocation {record.invocation_id!r} receives this message."


def busy(
    tables: Tables, key: SessionKey, head: Head, reason: str, ticket: Ticket | None, *, now: float
) -> SessionBusyError:
    """Build the error for a busy session, with an estimated wait if there is a ticket."""
    if ticket is None:
        return SessionBusyError(reason)
    ahead = tables.tickets_before(key, ticket, now)
    name = head.active(now)
    active = tables.invocation(key, name) if name else None
    running = max(now - active.update_time, 0.0) if active else 0.0
    return SessionBusyError(reason, ahead=ahead, remaining=_remaining(ticket, ahead, running, now))


def _remaining(ticket: Ticket, ahead: int, running: float, now: float) -> float:
    """Estimate the seconds until a ticket's turn.

    Assumes that the active invocation needs as much time again as it has run. The other turns are
    estimated from how fast the queue has moved since the ticket was taken, capped at twice the
    active invocation's time so far, because a single long invocation may have blocked the queue.
    """
    pace = TURN
    if ticket.since is not None and ticket.ahead is not None and ticket.ahead > ahead:
        moved = (now - ticket.since) / (ticket.ahead - ahead)
        pace = max(min(moved, 2 * running), TURN)
    return running + ahead * pace


def take(
    tables: Tables,
    key: SessionKey,
    head: Head,
    wanted: Ticket,
    *,
    now: float,
    message: str | None = None,
    bounds: QueueBounds | None = None,
    before_all: bool = False,
) -> Ticket:
    """Take a ticket with the next number, or renew the existing one, which keeps its number.

    Args:
        tables: The store's tables.
        key: The session.
        head: The session's row.
        wanted: The ticket, without its number.
        now: Seconds since the epoch.
        message: The message, if it may be delivered to the active invocation as steering.
        bounds: Limits of the queue; None: no limit.
        before_all: Whether the ticket goes before all existing ones.

    Raises:
        QueueFullError: A limit of the queue is reached.
    """
    known = tables.ticket(key, wanted.invocation_id)
    if (
        known is not None
        and known.ttl == wanted.ttl
        and _is_current(known, wanted.lease_owner, wanted.position, now)
    ):
        return known
    ticket = wanted.model_copy()
    ticket.expires_at = None if ticket.ttl is None else now + ticket.ttl
    if known is None:
        count, last = tables.ticket_count(key)
        if bounds is not None:
            _check_bounds(tables, key, bounds, count, now)
        ticket.number = last + 1
        ticket.since, ticket.ahead = now, tables.tickets_before(key, ticket, now)
        tables.save_head(key, replace(head, waiting=count + 1))
    else:
        ticket.number, ticket.position = known.number, min(known.position, ticket.position)
        ticket.since, ticket.ahead = known.since, known.ahead
    if before_all:
        (first, *_) = [*tables.tickets(key, limit=1), ticket]
        ticket.number, ticket.ahead = min(ticket.number, first.number - 1), 0
    tables.put_ticket(key, ticket, message)
    return ticket


def leave_message(
    tables: Tables,
    key: SessionKey,
    head: Head,
    wanted: Ticket,
    message: str | None,
    *,
    now: float,
    bounds: QueueBounds | None,
) -> None:
    """Take a ticket, or keep it, and store a message with it for a paused invocation."""
    ticket = take(tables, key, head, wanted, now=now, bounds=bounds)
    if tables.message(key, ticket.invocation_id) is None:
        tables.put_ticket(key, ticket, message)


def _check_bounds(
    tables: Tables, key: SessionKey, bounds: QueueBounds, count: int, now: float
) -> None:
    if count >= bounds.session:
        raise QueueFullError(
            f"{count} messages wait for session {key.session_id!r} already, which is as many as "
            f"may (limit max_queued_per_session); {_REMEDY}"
        )
    if tables.tickets_of_user(key, now) >= bounds.user:
        raise QueueFullError(
            f"{bounds.user} messages of user {key.user_id!r} wait for their sessions already, "
            f"which is as many as may (limit max_queued_per_user); {_REMEDY}"
        )


def _is_current(
    known: Ticket, lease_owner: str, position: QueuePosition | None, now: float
) -> bool:
    """Return whether the ticket needs no renewal yet.

    A renewal writes to disk, and attempts are frequent.
    """
    if known.lease_owner != lease_owner or (position is not None and known.position > position):
        return False
    return known.expires_at is None or known.expires_at > now + (known.ttl or 0) / 2


def leave(tables: Tables, key: SessionKey, head: Head, invocation_id: str, now: float) -> None:
    """Remove an invocation's ticket and all expired tickets."""
    if not head.waiting:
        return
    tables.remove_ticket(key, invocation_id, now)
    count, _ = tables.ticket_count(key)
    tables.save_head(key, replace(head, waiting=count))


def drop(tables: Tables, key: SessionKey, invocation_id: str, lease_owner: str, now: float) -> None:
    """Remove a ticket if it belongs to the lease owner; see `Queue.leave_queue`."""
    head, ticket = tables.head(key), tables.ticket(key, invocation_id)
    if head is not None and ticket is not None and ticket.lease_owner == lease_owner:
        leave(tables, key, head, invocation_id, now)
