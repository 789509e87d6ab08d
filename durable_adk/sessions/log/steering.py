"""Steering: messages delivered to the active invocation instead of opening their own (D7).

Such a message is stored with its ticket. Removing the ticket claims the message: the active
invocation stores it as one of its events, the message's own invocation opens, or the message is
withdrawn. Each does this in one transaction, so exactly one of them succeeds.
"""

import time

from durable_adk.sessions.log import queue
from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.sessions.log.head import lease_lost
from durable_adk.sessions.log.sessions import appended
from durable_adk.sessions.log.storage import NoteKey
from durable_adk.sessions.records import DELIVERED, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables


def deliver_message(
    tables: Tables, key: SessionKey, *, invocation_id: str, epoch: int, steered: str
) -> StoredEvent | None:
    """Store a queued message as an event; see `InvocationLog.deliver_message`."""
    head = tables.head(key)
    # The note keeps the complete event for repeats, because stored events lack `temp:` keys.
    note = NoteKey(invocation_id, DELIVERED, steered)
    if (known := tables.find_note(key, note)) is not None:
        return StoredEvent.from_json(known.body)
    if head is None or not head.holds(invocation_id, epoch):
        raise lease_lost(invocation_id, epoch)
    now = time.time()
    ticket = tables.ticket(key, steered)
    waits = ticket is not None and (ticket.expires_at is None or ticket.expires_at > now)
    message = tables.message(key, steered) if waits else None
    if message is None:
        return None
    event = decode_event(message).model_copy(update={"invocation_id": invocation_id})
    head = appended(tables, key, head, Entry.of(event))
    queue.leave(tables, key, head, steered, now)
    delivered = StoredEvent(seq=head.revision, event=event)
    tables.put_note(key, note, delivered.to_json(), replace=True)
    return delivered
