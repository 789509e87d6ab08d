"""The rules for who is next to take a session's lease, as functions over a store's tables.

Who finds the session busy takes a ticket, in the transaction that found it so: its number is the
order of arrival (D7). `Head.waiting` counts the tickets, so without any nobody looks at the table.
"""

from dataclasses import replace

from durable_adk.errors import SessionBusyError
from durable_adk.sessions._head import Head
from durable_adk.sessions._tables import Tables
from durable_adk.sessions.records import Place, Ticket
from durable_adk.sessions.session import SessionKey


def held(head: Head, now: float) -> SessionBusyError | None:
    """Why the lease is not free; None: it is."""
    active = head.active(now)
    if active is None:
        return None
    return SessionBusyError(f"The invocation {active!r} is active in this session.")


def behind(
    tables: Tables,
    key: SessionKey,
    head: Head,
    *,
    invocation_id: str,
    place: Place | None,
    now: float,
) -> SessionBusyError | None:
    """Why it is another's turn; None: it is the invocation's."""
    first = next(iter(live(tables, key, now)), None) if head.waiting else None
    if first is None or first.invocation_id == invocation_id:
        return None
    if first.place > (Place.LAST if place is None else place):
        return None
    return SessionBusyError(
        f"The invocation {first.invocation_id!r} waits for this session and comes first, "
        "none is active just now."
    )


def live(tables: Tables, key: SessionKey, now: float) -> list[Ticket]:
    """The tickets that have not expired, in order."""
    return [one for one in tables.tickets(key) if one.expires_at is None or one.expires_at > now]


def take(
    tables: Tables,
    key: SessionKey,
    head: Head,
    wanted: Ticket,
    *,
    now: float,
    message: str | None = None,
) -> None:
    """Take a ticket with the next number, or renew the one there is, which keeps its number.

    Args:
        tables: The store's.
        key: The session.
        head: Its row.
        wanted: The ticket, without its number.
        now: Seconds since the epoch.
        message: What the active invocation may hear in place of the one that waits.
    """
    tickets = tables.tickets(key)
    known = next((one for one in tickets if one.invocation_id == wanted.invocation_id), None)
    ticket = wanted.model_copy()
    ticket.expires_at = None if ticket.ttl is None else now + ticket.ttl
    if known is None:
        ticket.number = max((one.number for one in tickets), default=0) + 1
        tables.save_head(key, replace(head, waiting=len(tickets) + 1))
    elif _is_fresh(known, ticket, now):
        return
    else:
        ticket.number, ticket.place = known.number, min(known.place, ticket.place)
    tables.put_ticket(key, ticket, message)


def _is_fresh(known: Ticket, wanted: Ticket, now: float) -> bool:
    """Whether to renew can wait: it is a write to the disk, and attempts come often."""
    if (known.holder, known.ttl) != (wanted.holder, wanted.ttl) or known.place > wanted.place:
        return False
    return known.expires_at is None or known.expires_at > now + (known.ttl or 0) / 2


def leave(tables: Tables, key: SessionKey, head: Head, invocation_id: str, now: float) -> None:
    """Remove an invocation's ticket, and those that have expired."""
    if not head.waiting:
        return
    stay = {one.invocation_id for one in live(tables, key, now)} - {invocation_id}
    for ticket in tables.tickets(key):
        if ticket.invocation_id not in stay:
            tables.remove_ticket(key, ticket.invocation_id)
    tables.save_head(key, replace(head, waiting=len(stay)))


def drop(tables: Tables, key: SessionKey, invocation_id: str, holder: str, now: float) -> None:
    """Remove a ticket in the place of its holder; see `BaseSessionService.leave_queue`."""
    head = tables.head(key)
    if head is None or not head.waiting:
        return
    if any(
        (one.invocation_id, one.holder) == (invocation_id, holder) for one in tables.tickets(key)
    ):
        leave(tables, key, head, invocation_id, now)
