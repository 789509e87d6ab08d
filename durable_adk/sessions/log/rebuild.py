"""The rules for putting back what a store has lost, as functions over a store's tables."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from durable_adk.errors import EventConflictError, StaleSessionError
from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.invocations import add, existing
from durable_adk.sessions.log.notes import write
from durable_adk.sessions.log.queue import drop
from durable_adk.sessions.log.storage import NoteKey, Tables, owner
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey


class RebuiltNote(NamedTuple):
    """A note of an invocation that has not ended; see `BaseSessionService.note`."""

    invocation_id: str
    kind: str
    name: str
    body: str


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a session lacks at its end, exactly as it was."""

    key: SessionKey
    after: int
    """The session's revision without it; of a session that is missing altogether 0."""
    events: list[StoredEvent] = field(default_factory=list[StoredEvent])
    """Without gaps after `after`."""
    records: list[InvocationRecord] = field(default_factory=list[InvocationRecord])
    """Invocations as they were after the last of the events; they replace those in the store."""
    notes: list[RebuiltNote] = field(default_factory=list[RebuiltNote])
    """Written unless they are there."""
    create_time: float = 0.0
    """Of the session, should it be missing."""
    epoch: int = 0
    """Of the lease when the session was created; a tombstone of the store knows it too."""


def rebuild(tables: Tables, sessions: Sequence[Rebuilt]) -> None:
    """Put sessions back; see `BaseSessionService.rebuild`."""
    # All is looked at before anything is changed, as in `_log`; in one order, for looking locks.
    ordered = sorted(sessions, key=lambda one: one.key)
    put = [(one, _entries(tables, one)) for one in ordered]
    for one, entries in put:
        _put(tables, one, entries)
    # Sessions share keys of their user and app, and of these the newest value counts.
    shared = [(entry, one.key) for one, entries in put for entry in entries]
    newest: dict[tuple[str, SessionKey], str] = {}
    for entry, key in sorted(shared, key=lambda item: item[0].timestamp):
        for name, value in entry.delta.items():
            if not is_own(key, name):
                newest[name, owner(key, name)] = value
    # By name first, as in every commit, so that it cannot deadlock with one.
    for (name, key), value in sorted(newest.items()):
        tables.put_state(key, {name: value})


def _entries(tables: Tables, one: Rebuilt) -> list[Entry]:
    """The entries for a session's events, which fit on its end."""
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
        )
        tables.add_event(one.key, head.revision, entry)
        own = {k: v for k, v in entry.delta.items() if is_own(one.key, k)}
        tables.put_state(one.key, own)
    for record in one.records:
        tables.put_invocation(one.key, record)
    for invocation_id, kind, name, body in one.notes:
        write(tables, one.key, NoteKey(invocation_id, kind, name), body, replace=False)
    tables.save_head(one.key, _leased(head, one.records))
    for ticket in tables.tickets(one.key):
        if tables.find_event(one.key, f"{ticket.invocation_id}.0") is not None:
            drop(
                tables, one.key, ticket.invocation_id, ticket.lease_owner, time.time()
            )  # it was heard


def _leased(head: Head, records: list[InvocationRecord]) -> Head:
    """The head with the lease as the records have it: with the one that runs, if one does."""
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


def is_own(key: SessionKey, name: str) -> bool:
    """Whether a state key belongs to the session itself, and not to its user or app."""
    return owner(key, name) == key
