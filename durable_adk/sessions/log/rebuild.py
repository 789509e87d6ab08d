"""Rules for restoring events that a store has lost, as functions over a store's tables."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from durable_adk.errors import EventConflictError, StaleSessionError
from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.notes import write
from durable_adk.sessions.log.queue import drop
from durable_adk.sessions.log.sessions import add, existing
from durable_adk.sessions.log.storage import NoteKey, owner
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.sql.tables import Tables


class RebuiltNote(NamedTuple):
    """A note of an open invocation; see `Notes.note`."""

    invocation_id: str
    kind: str
    name: str
    body: str


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The lost end of a session, exactly as it was."""

    key: SessionKey
    after: int
    """The session's current revision; 0 if the whole session is missing."""
    events: list[StoredEvent] = field(default_factory=list[StoredEvent])
    """Events from `after` + 1 on, without gaps."""
    records: list[InvocationRecord] = field(default_factory=list[InvocationRecord])
    """Invocations as of the last of the events; they replace the stored ones."""
    awaiting: list[str] = field(default_factory=list[str])
    """Those of `records` that wait for a message; see `Head.awaiting_message`."""
    notes: list[RebuiltNote] = field(default_factory=list[RebuiltNote])
    """Notes to store; existing ones are kept."""
    create_time: float = 0.0
    """Creation time of the session, used if it is missing."""
    epoch: int = 0
    """The lease's epoch when the session was created; a tombstone, if present, also has it."""
    deleted: bool = False
    """Whether the session was deleted, so that only a tombstone is left."""


def rebuild(tables: Tables, sessions: Sequence[Rebuilt]) -> None:
    """Restore sessions; see `SessionLog.rebuild`."""
    # Check everything before changing anything, as in `invocations`. Sort the sessions, because
    # reading locks them.
    ordered = sorted(sessions, key=lambda one: one.key)
    put = [(one, _entries(tables, one)) for one in ordered]
    for one, entries in put:
        _put(tables, one, entries)
    # Sessions share the state of their user and app; the newest value of each key wins.
    shared = [(entry, one.key) for one, entries in put for entry in entries]
    newest: dict[tuple[str, SessionKey], str] = {}
    for entry, key in sorted(shared, key=lambda item: item[0].timestamp):
        for name, value in entry.delta.items():
            if not is_own(key, name):
                newest[name, owner(key, name)] = value
    # Sort by name first, as every commit does, to avoid deadlocks with commits.
    for (name, key), value in sorted(newest.items()):
        tables.put_state(key, {name: value})


def _entries(tables: Tables, one: Rebuilt) -> list[Entry]:
    """Build the entries for a session's events, checking that they continue its log."""
    head = tables.head(one.key)
    if one.after != (head.revision if head else 0):
        raise StaleSessionError(
            f"The session {one.key.session_id!r} was changed after it was looked at; look again."
        )
    entries = [Entry.of(item.event) for item in one.events]
    for place, (item, entry) in enumerate(zip(one.events, entries, strict=True), one.after + 1):
        if item.seq != place or tables.find_event(one.key, entry.event_id) is not None:
            raise EventConflictError(f"The id {entry.event_id!r} or its place is taken.")
    return entries


def _put(tables: Tables, one: Rebuilt, entries: list[Entry]) -> None:
    if one.deleted:
        tables.add_tombstone(one.key, Creation(one.epoch, one.create_time))
        return
    made = Head(
        create_time=one.create_time,
        update_time=one.create_time,
        created_epoch=one.epoch,
        lease_epoch=one.epoch,
    )
    add(tables, one.key, made)
    head = existing(tables, one.key)
    for entry in entries:
        head = replace(
            head,
            revision=head.revision + 1,
            update_time=max(head.update_time, entry.timestamp),
            size=head.size + len(entry.body),
        )
        tables.add_event(one.key, head.revision, entry)
        own = {k: v for k, v in entry.delta.items() if is_own(one.key, k)}
        tables.put_state(one.key, own)
    for record in one.records:
        tables.put_invocation(one.key, record)
    for invocation_id, kind, name, body in one.notes:
        write(tables, one.key, NoteKey(invocation_id, kind, name), body, replace=False)
    tables.save_head(one.key, _awaiting(_leased(head, one.records), one))
    for ticket in tables.tickets(one.key):
        if tables.find_event(one.key, f"{ticket.invocation_id}.0") is not None:
            drop(
                tables, one.key, ticket.invocation_id, ticket.lease_owner, time.time()
            )  # the message was delivered as steering


def _leased(head: Head, records: list[InvocationRecord]) -> Head:
    """Return the head with the lease that the records imply: held by the running invocation."""
    if not records:
        return head
    newest = max(records, key=lambda record: record.epoch)
    if newest.epoch < head.lease_epoch:
        return head
    running = newest.status is Status.RUNNING
    return replace(
        head.released(),
        lease_epoch=newest.epoch,
        lease_invocation_id=newest.invocation_id if running else None,
    )


def _awaiting(head: Head, one: Rebuilt) -> Head:
    """Return the head with the invocations that wait for a message."""
    for record in one.records:
        head = head.with_awaiting(record.invocation_id)
    for name in one.awaiting:
        head = head.with_awaiting(name, awaits_message=True)
    return head


def is_own(key: SessionKey, name: str) -> bool:
    """Return whether a state key belongs to the session itself, not to its user or app."""
    return owner(key, name) == key
