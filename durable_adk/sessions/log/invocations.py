"""Rules of invocations in the session log, as functions over a store's tables in a transaction.

Each function checks before it changes anything, in the order event id, lease, revision. A repeated
call therefore finds its own first attempt before that attempt's consequences (TRAP-11, TRAP-12).
"""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    InvocationCancelledError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    LeaseLostError,
    SessionBusyError,
    as_detail,
)
from durable_adk.failpoints import failpoint
from durable_adk.sessions.log import queue, sessions
from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.sessions.log.head import Head, lease_lost
from durable_adk.sessions.log.storage import NoteKey, Row, Window
from durable_adk.sessions.records import (
    DELIVERED,
    RESERVED,
    WITHDRAWN,
    InvocationRecord,
    MessageAwaitedError,
    QueueBounds,
    QueuePosition,
    Status,
    StoredEvent,
    Ticket,
)
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables

_DERIVED = re.compile(r"[1-9]\d*\.\d+(\.[1-9]\d*\.\d+)*|answer(\..*)?", re.ASCII)
"""Matches the part after an invocation's id and a dot in ids that its own events may have: the path
of a `agent_scope.Branch`, or an id from `messages.answer_event`. No other invocation may use such
an id."""
WITHDRAWN_FOR = 3600
"""Seconds that a withdrawal is kept: longer than an abandoned opening attempt can be delayed. The
note's body is the Unix time, which sorts as text because it has 10 digits until 2286."""


def commit(
    tables: Tables,
    key: SessionKey,
    entry: Entry,
    *,
    invocation_id: str,
    epoch: int,
    closing: Status | None = None,
    revision: int | None = None,
    by_step: bool = False,
) -> Row:
    """Append an event under the lease; see `InvocationLog.commit_event`."""
    head = tables.head(key)
    if head is not None:
        head.require_created_for(epoch)
        head.require_grown(revision or 0)
        if by_step and head.retried:
            _require_not_reserved(tables, key, invocation_id, entry)
    if head is None or not head.holds(invocation_id, epoch):
        return _repeated(tables, key, entry, invocation_id=invocation_id, epoch=epoch)
    entry = sessions.merged(tables, key, entry)
    # The insert itself detects a repeat, which saves the usual first commit one statement.
    if not tables.add_event(key, head.revision + 1, entry):
        return _repeated(tables, key, entry, invocation_id=invocation_id, epoch=epoch)
    head = sessions.advance(tables, key, head, entry)
    if closing is None:
        tables.save_head(key, head)
    else:
        record = tables.invocation(key, invocation_id)
        if record is None or record.status.closed:  # never while it holds the lease
            raise lease_lost(invocation_id, epoch)
        _close(tables, key, head.released(), record, closing)
    failpoint("commit.written")
    return Row(head.revision, entry.digest, entry.body)


def open_invocation(
    tables: Tables,
    key: SessionKey,
    entry: Entry,
    *,
    lease_owner: str,
    create_session: bool,
    ttl: float | None,
    position: QueuePosition | None,
    message: str | None = None,
    steers: bool = False,
    may_reply: bool = False,
    bounds: QueueBounds | None = None,
    caller: SessionKey | None = None,
) -> InvocationRecord | SessionBusyError:
    """Take the lease and append the user's event; see `InvocationLog.open_invocation`.

    SessionBusyError is returned instead of raised, because the ticket must be committed.
    """
    now = time.time()
    invocation_id = entry.invocation_id
    if create_session:
        head, is_new = sessions.find_or_create(tables, key, caller)
    else:
        head, is_new = sessions.existing(tables, key), False
    if not is_new:
        if (opened := tables.invocation(key, invocation_id)) is not None:
            _require_opened_by(tables, key, opened, entry)
            return opened
        _require_openable(tables, key, invocation_id, lease_owner)
    reason = queue.held(head, now) or queue.behind(
        tables, key, head, invocation_id=invocation_id, position=position, now=now
    )
    if reason is not None:
        _require_not_delivered(tables, key, entry)
        if position is None:
            return queue.busy(tables, key, head, reason, None, now=now)
        wanted = wanted_ticket(invocation_id, lease_owner, position, ttl)
        sent = message if steers else None
        ticket = queue.take(tables, key, head, wanted, now=now, message=sent, bounds=bounds)
        return queue.busy(tables, key, head, reason, ticket, now=now)
    if may_reply and (recipient := queue.recipient(tables, key, head)) is not None:
        _require_not_delivered(tables, key, entry)
        wanted = wanted_ticket(invocation_id, lease_owner, position or QueuePosition.LAST, ttl)
        queue.leave_message(tables, key, head, wanted, message, now=now, bounds=bounds)
        return MessageAwaitedError(recipient)
    return _begin(tables, key, head, entry, lease_owner=lease_owner, ttl=ttl, now=now)


def _begin(
    tables: Tables,
    key: SessionKey,
    head: Head,
    entry: Entry,
    *,
    lease_owner: str,
    ttl: float | None,
    now: float,
) -> InvocationRecord:
    """Take the lease of a free session, and append the user's event."""
    leased = sessions.appended(tables, key, head.leased(entry.invocation_id, ttl, now), entry)
    abandon(tables, key, head)  # only after the insert has shown that the event id is free
    queue.leave(tables, key, leased, entry.invocation_id, now)
    failpoint("open.written")
    record = InvocationRecord(
        invocation_id=entry.invocation_id,
        status=Status.RUNNING,
        epoch=leased.lease_epoch,
        lease_owner=lease_owner,
        start_seq=leased.revision,
    )
    return set_status(tables, key, record, Status.RUNNING)


def _require_openable(
    tables: Tables, key: SessionKey, invocation_id: str, lease_owner: str
) -> None:
    """Reject a withdrawn invocation, and an id that could collide with another's event ids."""
    if tables.find_note(key, NoteKey(invocation_id, WITHDRAWN, lease_owner)) is not None:
        raise InvocationCancelledError("It was withdrawn before this attempt to open it.")
    parts = invocation_id.split(".")
    for length in range(1, len(parts)):
        other, rest = ".".join(parts[:length]), ".".join(parts[length:])
        if _DERIVED.fullmatch(rest) and tables.invocation(key, other) is not None:
            raise InvalidRequestError(
                f"The invocation id {invocation_id!r} is one that the events of invocation "
                f"{other!r} may have; choose an id that does not begin with '{other}.'."
            )


def _require_not_delivered(tables: Tables, key: SessionKey, entry: Entry) -> None:
    """Reject queuing a delivered message: it was sent again, or this attempt is late."""
    if tables.find_event(key, entry.event_id) is not None:
        raise EventConflictError(f"The message {entry.event_id!r} was already delivered.")


def deliver_message(
    tables: Tables,
    key: SessionKey,
    *,
    invocation_id: str,
    epoch: int,
    steered: str,
    scope: str | None = None,
) -> StoredEvent | None:
    """Store a queued message as an event; see `InvocationLog.deliver_message`.

    The message is stored with its ticket, and removing the ticket claims it: the active invocation
    stores it as one of its events, the message's own invocation opens, or it is withdrawn. Each
    does this in one transaction, so exactly one of them succeeds.
    """
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
    changes = {"invocation_id": invocation_id, "isolation_scope": scope}
    event = decode_event(message).model_copy(update=changes)
    head = sessions.appended(tables, key, head, Entry.of(event))
    queue.leave(tables, key, head, steered, now)
    delivered = StoredEvent(seq=head.revision, event=event)
    tables.put_note(key, note, delivered.to_json(), replace=True)
    return delivered


def withdraw(
    tables: Tables, key: SessionKey, invocation_id: str, lease_owner: str, *, create_session: bool
) -> InvocationRecord | None:
    """Reject a lease owner's opening; see `InvocationLog.withdraw_invocation`."""
    if create_session:
        sessions.find_or_create(tables, key)
    if tables.head(key) is None:  # otherwise locks the row, so openings are serialized with this
        return None
    record = tables.invocation(key, invocation_id)
    if record is None and tables.find_event(key, f"{invocation_id}.0") is not None:
        raise EventConflictError(f"The message {invocation_id!r} was already delivered.")
    if record is None:
        now = time.time()
        note = NoteKey(invocation_id, WITHDRAWN, lease_owner)
        tables.remove_withdrawn(key, _kept_since(now))
        tables.put_note(key, note, str(int(now)), replace=True)
        queue.drop(tables, key, invocation_id, lease_owner, now)
    return record


def require_open(
    tables: Tables, key: SessionKey, invocation_id: str, *, epoch: int | None, ended: bool
) -> None:
    """Fence off writes outside of the log; see `InvocationLog.require_open`."""
    sessions.existing(tables, key, epoch=epoch)
    record = tables.invocation(key, invocation_id)
    if record is None or record.status is Status.ABANDONED or (record.status.closed and not ended):
        raise LeaseLostError(
            f"The invocation {invocation_id!r} has ended without this attempt of its step, so "
            "nothing is saved for it."
        )


def renew(tables: Tables, key: SessionKey, *, invocation_id: str, epoch: int) -> None:
    """Restart the lease's `ttl`; see `InvocationLog.renew`."""
    head = tables.head(key)
    if head is not None and head.holds(invocation_id, epoch):
        tables.save_head(key, head.renewed(time.time()))


def note_cancellation(tables: Tables, key: SessionKey) -> bool:
    """Change the session's row; see `InvocationLog.note_cancellation`."""
    head = tables.head(key)
    if head is not None:
        tables.save_head(key, replace(head, cancellations=head.cancellations + 1))
    return head is not None


def close(
    tables: Tables,
    key: SessionKey,
    *,
    invocation_id: str,
    epoch: int,
    status: Status,
    error: dict[str, Any] | None = None,
    seals: Sequence[Entry] = (),
    revision: int | None = None,
) -> InvocationRecord:
    """Close an invocation; see `InvocationLog.close_invocation`."""
    head, record = tables.head(key), tables.invocation(key, invocation_id)
    if head is None or record is None:
        raise lease_lost(invocation_id, epoch)
    if record.status is Status.ABANDONED and status is not Status.ABANDONED:
        raise lease_lost(invocation_id, epoch)
    if record.status.closed and record.epoch == epoch:
        return record
    # A paused invocation holds no lease; a lease on the session belongs to another invocation.
    if (record.status, record.epoch, status) != (Status.PAUSED, epoch, Status.ABANDONED):
        head.require_held(invocation_id, epoch)
        if revision is not None:
            head.require_fresh(revision)
        for entry in seals:
            head = sessions.appended(tables, key, head, entry)
        head = head.released()
    else:
        head = head.touched(time.time())
    record.error = error
    return _close(tables, key, head, record, status)


def _close(
    tables: Tables, key: SessionKey, head: Head, record: InvocationRecord, status: Status
) -> InvocationRecord:
    """Close an invocation, and save its session's row, which has been changed for it."""
    now = time.time()
    tables.save_head(key, head)
    record.end_seq = head.revision
    tables.remove_notes(key, record.invocation_id, withdrawn_before=_kept_since(now))
    queue.leave(tables, key, head, record.invocation_id, now)
    record = set_status(tables, key, record, status)
    failpoint("close.written")
    return record


def _kept_since(now: float) -> str:
    """Return the earliest body of a note of kind `WITHDRAWN` that is kept."""
    return str(int(now) - WITHDRAWN_FOR)


def invocation_not_found(key: SessionKey, invocation_id: str) -> InvocationNotFoundError:
    """Build the error for an invocation that was never opened."""
    return InvocationNotFoundError(
        f"The session {key.session_id!r} has no invocation {invocation_id!r}."
    )


def wanted_ticket(
    invocation_id: str, lease_owner: str, position: QueuePosition, ttl: float | None
) -> Ticket:
    """Build the requested ticket; its number is assigned when it is taken."""
    return Ticket(
        invocation_id=invocation_id, lease_owner=lease_owner, position=position, number=0, ttl=ttl
    )


def _require_not_reserved(
    tables: Tables, key: SessionKey, invocation_id: str, entry: Entry
) -> None:
    if tables.find_note(key, NoteKey(invocation_id, RESERVED, entry.event_id)) is not None:
        raise EventConflictError(
            f"The id {entry.event_id!r} is reserved for what a later attempt of its step has made."
        )


def _repeated(
    tables: Tables, key: SessionKey, entry: Entry, *, invocation_id: str, epoch: int
) -> Row:
    """Return the row of an earlier commit of the same event."""
    row = tables.find_event(key, entry.event_id)
    if row is None:
        raise lease_lost(invocation_id, epoch)
    entry.require_same(row.digest)
    return row


def _require_opened_by(
    tables: Tables, key: SessionKey, record: InvocationRecord, entry: Entry
) -> None:
    """Check that this repeats the opening and is not another request under its invocation id."""
    (row,) = tables.events(key, Window(after=record.start_seq - 1, upto=record.start_seq))
    entry.require_same(row.digest)


def set_status(
    tables: Tables, key: SessionKey, record: InvocationRecord, status: Status
) -> InvocationRecord:
    """Set the record's status and store it; its time never decreases, so that no page misses it."""
    record.status, record.update_time = status, max(record.update_time, time.time())
    tables.put_invocation(key, record)
    return record


def abandon(tables: Tables, key: SessionKey, head: Head) -> None:
    """Close the invocation whose lease has expired: its process died before closing it."""
    if head.lease_invocation_id is None:
        return
    record = tables.invocation(key, head.lease_invocation_id)
    if record is not None:
        record.end_seq = head.revision
        record.error = as_detail(InvocationTerminatedError("Its process has ended without it."))
        tables.remove_notes(key, record.invocation_id)
        set_status(tables, key, record, Status.ABANDONED)
