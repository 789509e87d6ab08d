"""Rules for paused invocations, as functions over a store's tables (D9); see `invocations`."""

import time
from collections.abc import Sequence
from typing import Any

from durable_adk.errors import InvalidRequestError, SessionBusyError
from durable_adk.failpoints import failpoint
from durable_adk.sessions.log import queue
from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.sessions.log.head import Head, lease_lost
from durable_adk.sessions.log.invocations import (
    abandon,
    invocation_not_found,
    set_status,
    wanted_ticket,
)
from durable_adk.sessions.log.sessions import appended
from durable_adk.sessions.log.storage import Window
from durable_adk.sessions.records import InvocationRecord, QueuePosition, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables

RESUMING_TTL = 60.0
"""Seconds until the ticket of a resumption expires without a retry; retries are at most 20 s apart.
It expires because a live owner may give up, if the answer becomes invalid meanwhile."""


def pause(
    tables: Tables,
    key: SessionKey,
    *,
    invocation_id: str,
    epoch: int,
    revision: int | None,
    awaits_message: bool = False,
) -> InvocationRecord:
    """Pause an invocation and release its lease; see `InvocationLog.pause_invocation`."""
    head, record = tables.head(key), tables.invocation(key, invocation_id)
    if head is None or record is None:
        raise lease_lost(invocation_id, epoch)
    if record.status is Status.PAUSED and record.epoch == epoch:
        return record
    head.require_held(invocation_id, epoch)
    later = tables.events(key, Window(after=head.revision if revision is None else revision))
    if any(decode_event(row.body).invocation_id == invocation_id for row in later):
        raise lease_lost(invocation_id, epoch)
    tables.save_head(
        key, head.released().with_awaiting(invocation_id, awaits_message=awaits_message)
    )
    record.pauses += 1
    return set_status(tables, key, record, Status.PAUSED)


def resume(
    tables: Tables,
    key: SessionKey,
    entry: Entry | None,
    *,
    invocation_id: str,
    lease_owner: str,
    ttl: float | None,
) -> InvocationRecord | SessionBusyError:
    """Take the lease again; see `InvocationLog.resume_invocation`.

    SessionBusyError is returned instead of raised, because the ticket must be committed. The ticket
    only blocks new invocations; an open invocation does not queue behind them.
    """
    now = time.time()
    head, record = tables.head(key), tables.invocation(key, invocation_id)
    if head is None or record is None:
        raise invocation_not_found(key, invocation_id)
    if _is_resumed(tables, key, record, entry, lease_owner):
        return record
    if record.status is not Status.PAUSED:
        raise InvalidRequestError(
            f"The invocation {invocation_id!r} is {record.status.value}, not paused."
        )
    if (reason := queue.held(head, now)) is not None:
        wanted = wanted_ticket(invocation_id, lease_owner, QueuePosition.FIRST, RESUMING_TTL)
        ticket = queue.take(tables, key, head, wanted, now=now)
        return queue.busy(tables, key, head, reason, ticket, now=now)
    abandon(tables, key, head)
    head = head.leased(invocation_id, ttl, now).with_awaiting(invocation_id)
    if entry is None:
        tables.save_head(key, head)
    else:
        head = appended(tables, key, head, entry)
    queue.leave(tables, key, head, invocation_id, now)
    record.epoch, record.lease_owner = head.lease_epoch, lease_owner
    return set_status(tables, key, record, Status.RUNNING)


def _is_resumed(
    tables: Tables, key: SessionKey, record: InvocationRecord, entry: Entry | None, lease_owner: str
) -> bool:
    """Return whether this repeats a resumption: the answer is stored, or the lease is taken.

    Without an answer, the lease must be held by the same lease owner.
    """
    if entry is None:
        return record.status is Status.RUNNING and record.lease_owner == lease_owner
    row = tables.find_event(key, entry.event_id)
    if row is not None:
        entry.require_same(row.digest)
    return row is not None


def close(
    tables: Tables,
    key: SessionKey,
    *,
    invocation_id: str,
    epoch: int,
    status: Status,
    error: dict[str, Any] | None,
    seals: Sequence[Entry],
    revision: int | None,
) -> InvocationRecord | SessionBusyError:
    """Close a paused invocation; see `InvocationLog.close_paused`.

    SessionBusyError is returned instead of raised, because status and ticket must be committed.
    """
    now = time.time()
    head, record = tables.head(key), tables.invocation(key, invocation_id)
    if head is None or record is None:
        raise lease_lost(invocation_id, epoch)
    if record.sealed:
        return record
    if record.epoch != epoch or record.status is Status.RUNNING:
        raise lease_lost(invocation_id, epoch)
    reason = queue.held(head, now)
    if reason is None and revision is not None:
        head.require_fresh(revision)
    if record.status is Status.PAUSED:
        record.error = error
        tables.remove_notes(key, invocation_id)
        record = set_status(tables, key, record, status)
        head = head.touched(now).with_awaiting(invocation_id)
        tables.save_head(key, head)
    if reason is not None:
        # No ttl: if the lease owner dies, the next opening stores the closing events.
        wanted = wanted_ticket(invocation_id, record.lease_owner, QueuePosition.FIRST, None)
        ticket = queue.take(tables, key, head, wanted, now=now, before_all=True)
        failpoint("end.written")
        return queue.busy(tables, key, head, reason, ticket, now=now)
    abandon(tables, key, head)
    return _sealed(tables, key, head, record, seals)


def _sealed(
    tables: Tables, key: SessionKey, head: Head, record: InvocationRecord, seals: Sequence[Entry]
) -> InvocationRecord:
    """Store the closing events of a closed invocation."""
    now = time.time()
    # Take a new epoch, because epochs record the order in which invocations wrote (I21).
    head = head.leased(record.invocation_id, None, now).released()
    for entry in seals:
        head = appended(tables, key, head, entry)
    tables.save_head(key, head)
    queue.leave(tables, key, head, record.invocation_id, now)
    record.epoch, record.end_seq = head.lease_epoch, head.revision
    tables.put_invocation(key, record)
    failpoint("seal.written")
    return record
