"""Messages that the active invocation hears, in place of invocations of their own (D7).

Such a message waits with its ticket, and who takes the ticket has the message: the active
invocation, which stores it as an event of its own; or the message's opening; or who withdraws it.
All of them do it in one transaction, so it is never two of these.
"""

import time

from durable_adk.sessions.log import queue
from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.sessions.log.head import lease_lost
from durable_adk.sessions.log.invocations import appended
from durable_adk.sessions.log.storage import NoteKey, Tables
from durable_adk.sessions.records import HEARD, StoredEvent
from durable_adk.sessions.session import SessionKey


def hear(
    tables: Tables, key: SessionKey, *, invocation_id: str, epoch: int, steered: str
) -> StoredEvent | None:
    """Store a message that waits; see `BaseSessionService.hear`."""
    head = tables.head(key)
    # Written down as it was, as `temp:` keys are in no stored event.
    note = NoteKey(invocation_id, HEARD, steered)
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
    heard = StoredEvent(seq=head.revision, event=event)
    tables.put_note(key, note, heard.to_json(), replace=True)
    return heard
