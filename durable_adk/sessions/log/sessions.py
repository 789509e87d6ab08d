"""Rules of a session in the log, as functions over a store's tables within one transaction."""

import time
from dataclasses import replace
from typing import NamedTuple

from durable_adk.errors import (
    AlreadyExistsError,
    EventConflictError,
    SessionNotFoundError,
    StateConflictError,
)
from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.storage import Row, Window
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.sql.tables import Tables


class View(NamedTuple):
    """A session at one point in time."""

    head: Head
    state: dict[str, str]
    rows: list[Row]


def create(tables: Tables, key: SessionKey, state: dict[str, str]) -> View:
    """Create a session; see `SessionLog.create_session`."""
    now = time.time()
    size = sum(map(len, state.values()))
    head = add(tables, key, Head(create_time=now, update_time=now, size=size))
    if head is None:
        raise AlreadyExistsError(f"The session {key.session_id!r} exists already.")
    tables.put_state(key, state, initial=True)
    return View(head, tables.state(key), [])


def find_or_create(
    tables: Tables, key: SessionKey, caller: SessionKey | None = None
) -> tuple[Head, bool]:
    """Create the session unless it exists; a child session only if its caller's session does.

    Returns:
        The session's row, and whether it was created: then there is nothing else in the session,
        because a deletion leaves nothing.

    Raises:
        SessionNotFoundError: The caller's session is gone, so its deletion could not remove this
            one.
    """
    if caller is not None:
        existing(tables, caller)
    head = tables.head(key)
    if head is not None:
        return head, False
    now = time.time()
    made = add(tables, key, Head(create_time=now, update_time=now))
    # With row locks, another transaction may have created it first.
    return (existing(tables, key), False) if made is None else (made, True)


def add(tables: Tables, key: SessionKey, head: Head) -> Head | None:
    """Add a session's row; its epochs continue those of a deleted session of the same name.

    Returns:
        The row; None if the session exists.
    """
    if not tables.add_session(key, head):
        return None
    # Read it after adding: the insert waits for a concurrent deletion, whose tombstone is then
    # visible.
    deleted = tables.tombstone(key)
    if deleted is not None:
        head = replace(head, created_epoch=deleted.epoch, lease_epoch=deleted.epoch)
        tables.save_head(key, head)
        tables.remove_tombstone(key)
    return head


def remove(tables: Tables, key: SessionKey) -> None:
    """Remove a session and, recursively, the child sessions of its calls."""
    head = tables.head(key)  # locks the row, which serializes this with commits and openings
    for child in tables.sessions_of(key, key.child_prefix()):
        remove(tables, child)
    if head is not None:  # otherwise one created from now on must not be removed
        tables.add_tombstone(key, Creation.after_deletion(head.lease_epoch))
        tables.remove_session(key)


def creation(tables: Tables, key: SessionKey) -> Creation | None:
    """See `SessionLog.read_creation`."""
    head = tables.head(key)
    return Creation(head.created_epoch, head.create_time) if head else tables.tombstone(key)


def view(tables: Tables, key: SessionKey, window: Window) -> View | None:
    """Read a session with the events of the window; None if missing."""
    head = tables.head(key)
    return head and View(head, tables.state(key), tables.events(key, window))


def existing(tables: Tables, key: SessionKey, *, epoch: int | None = None) -> Head:
    """Read the session's row.

    Raises:
        SessionNotFoundError: The session is missing.
        LeaseLostError: The session was created after `epoch`, in place of a deleted one.
    """
    head = tables.head(key)
    if head is None:
        raise SessionNotFoundError(f"There is no session {key.session_id!r}.")
    if epoch is not None:
        head.require_created_for(epoch)
    return head


def append(tables: Tables, key: SessionKey, entry: Entry, revision: int) -> tuple[Row, Head]:
    """Append an event outside any invocation; see `SessionLog.append_event`.

    The check of `revision` ignores app and user state: a change of it by another session does not
    make a copy stale (TRAP-14).
    """
    head = existing(tables, key)
    row = tables.find_event(key, entry.event_id)
    if row is not None:
        entry.require_same(row.digest)
        return row, head
    head.require_fresh(revision)
    head = appended(tables, key, head, entry)
    return Row(head.revision, entry.digest, entry.body), head


def appended(tables: Tables, key: SessionKey, head: Head, entry: Entry) -> Head:
    """Append an event and return the session's new row.

    Raises:
        EventConflictError: The event's id is taken.
        StateConflictError: A value cannot be merged with the stored one.
    """
    entry = merged(tables, key, entry)
    if not tables.add_event(key, head.revision + 1, entry):
        raise EventConflictError(f"The id {entry.event_id!r} is taken by another event.")
    head = advance(tables, key, head, entry)
    tables.save_head(key, head)
    return head


def merged(tables: Tables, key: SessionKey, entry: Entry) -> Entry:
    """Return the entry with its values merged into the stored ones, unless it is a repeat.

    Raises:
        StateConflictError: A value cannot be merged.
    """
    if not entry.bases:
        return entry
    try:
        return entry.merged(tables.locked_state(key, entry.delta))
    except StateConflictError:
        if tables.find_event(key, entry.event_id) is not None:
            return entry  # a repeat finds the values that it has written itself
        raise


def advance(tables: Tables, key: SessionKey, head: Head, entry: Entry) -> Head:
    """Update the state for an event that was added; return the session's row, to be saved."""
    tables.put_state(key, entry.delta)
    return head.appended(entry.timestamp, time.time(), len(entry.body))
