"""The tables of the SQL session store, on one connection."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Executable

from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.storage import (
    InvocationsByTime,
    NoteKey,
    Page,
    Row,
    Window,
    owner,
)
from durable_adk.sessions.records import InvocationRecord, Note, Status, Ticket
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.sql import statements as sql
from durable_adk.sessions.sql.connections import TableConnection, Values
from durable_adk.sql.schema import SESSIONS


def _note_params(note: NoteKey) -> dict[str, str]:
    return {"id": note.invocation_id, "kind": note.kind, "name": note.name}


def _params(key: SessionKey) -> dict[str, str]:
    return {"k_app": key.app_name, "k_user": key.user_id, "k_session": key.session_id}


class Tables:
    """The tables of a store on one connection, within its current transaction.

    State is stored by owner (see `owner`), each value as JSON text.
    """

    def __init__(self, connection: TableConnection, *, lock: bool) -> None:
        self._connection = connection
        self.changed: set[SessionKey] = set()
        """Sessions changed by the transaction, whose watches must be woken."""
        self._head_of = sql.LOCKED_HEAD_OF if lock else sql.HEAD_OF
        self._insert = sql.inserts(connection.dialect)

    def _one(self, query: Executable, values: Values) -> Any:
        """Return the only row of a query; None if there is none."""
        return next(self._connection.rows(query, values), None)

    def _scalar(self, query: Executable, values: Values) -> Any:
        """Return the value of a query's only row; None if there is none."""
        row = self._one(query, values)
        return None if row is None else row[0]

    def head(self, key: SessionKey) -> Head | None:
        """Read the session's row; None if missing. A writing transaction locks it until its end."""
        row = self._one(self._head_of, _params(key))
        return None if row is None else _head(row)

    def heads_of(self, keys: Collection[SessionKey]) -> dict[SessionKey, Head]:
        """Read the rows of sessions, omitting missing ones, with a statement per `MANY_HEADS`."""
        query, wanted = sql.heads_of(self._connection.dialect), list(keys)
        found: dict[SessionKey, Head] = {}
        for start in range(0, len(wanted), sql.MANY_HEADS):
            part = json.dumps(wanted[start : start + sql.MANY_HEADS])
            for row in self._connection.rows(query, {"keys": part}):
                found[SessionKey(*row[: len(sql.KEY)])] = _head(row[len(sql.KEY) :])
        return found

    def apps(self) -> list[str]:
        """List the apps that have sessions, sorted by name."""
        return sorted(name for (name,) in self._connection.rows(sql.APPS, {}))

    def heads(
        self, app_name: str, user_id: str | None, page: Page
    ) -> list[tuple[SessionKey, Head]]:
        """List the sessions of an app or of one user, by `Position`; child sessions excluded."""
        listed = sql.NEWEST_LISTED if page.newest_first else sql.LISTED
        query = listed.where(SESSIONS.c.app_name == app_name).limit(page.limit)
        if user_id is not None:
            query = query.where(SESSIONS.c.user_id == user_id)
        if page.since is not None:
            query = query.where(SESSIONS.c.update_time >= page.since)
        if page.after is not None:
            is_behind = sql.POSITION.__lt__ if page.newest_first else sql.POSITION.__gt__
            query = query.where(is_behind(page.after))
        keys = len(sql.KEY)
        rows = self._connection.rows(query, {})
        return [(SessionKey(*row[:keys]), _head(row[keys:])) for row in rows]

    def sessions_of(self, user: SessionKey, prefix: str = "") -> list[SessionKey]:
        """List the sessions of a user whose ids begin with `prefix`, including child sessions.

        The session id of `user` is ignored.
        """
        whose = {"k_app": user.app_name, "k_user": user.user_id, "prefix": prefix}
        rows = self._connection.rows(sql.SESSIONS_OF, whose | {"length": len(prefix)})
        return [SessionKey(user.app_name, user.user_id, row.session_id) for row in rows]

    def add_session(self, key: SessionKey, head: Head) -> bool:
        """Add a session; return False if it exists."""
        self.changed.add(key)
        values = {**key._asdict(), **_fields(head)}
        return self._connection.change(self._insert.session, values) == 1

    def save_head(self, key: SessionKey, head: Head) -> None:
        """Replace the session's row."""
        self.changed.add(key)
        self._connection.change(sql.SAVE_HEAD, {**_params(key), **_fields(head)})

    def tombstone(self, key: SessionKey) -> Creation | None:
        """Read the earliest epoch and time for a new session with a deleted session's name."""
        row = self._one(sql.TOMBSTONE_OF, _params(key))
        return None if row is None else Creation(row.epoch, row.delete_time)

    def remove_tombstone(self, key: SessionKey) -> None:
        """Remove a session's tombstone after a session of the same name was created."""
        self._connection.change(sql.REMOVE_TOMBSTONE, _params(key))

    def remove_tombstones(self, user: SessionKey) -> None:
        """Remove the tombstones of all sessions of a user; `user` has no session id."""
        whose = {"k_app": user.app_name, "k_user": user.user_id}
        self._connection.change(sql.REMOVE_TOMBSTONES, whose)

    def add_tombstone(self, key: SessionKey, creation: Creation) -> None:
        """Store the value for `tombstone`, replacing an earlier one."""
        row = {**key._asdict(), "epoch": creation.epoch, "delete_time": creation.time}
        self._connection.change(self._insert.tombstone, row)

    def remove_session(self, key: SessionKey) -> None:
        """Remove a session and all its data, except app and user state."""
        self.changed.add(key)
        for statement in sql.REMOVE:
            self._connection.change(statement, _params(key))

    def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        """Add an event; return False without adding it if its id is taken in the session."""
        values = {
            **key._asdict(),
            "seq": seq,
            "event_id": entry.event_id,
            "invocation_id": entry.invocation_id,
            "timestamp": entry.timestamp,
            "digest": entry.digest,
            "body": entry.body,
        }
        return self._connection.change(self._insert.event, values) == 1

    def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        """Read the event with this id."""
        row = self._one(sql.EVENT_OF, {**_params(key), "id": event_id})
        return None if row is None else Row(*row)

    def events(self, key: SessionKey, window: Window) -> list[Row]:
        """Read the events of the window, by sequence number."""
        query = sql.events_of(since=window.since is not None, last=window.last is not None)
        values: dict[str, Any] = {
            **_params(key),
            "after": window.after,
            "upto": sql.NO_LIMIT if window.upto is None else window.upto,
            "limit": _limit(window.first if window.last is None else window.last),
        }
        if window.since is not None:
            values["since"] = window.since
        rows = self._connection.rows(query, values)
        return sorted(window.fitting(Row(*row) for row in rows))

    def put_state(self, key: SessionKey, delta: dict[str, str], *, initial: bool = False) -> None:
        """Set the delta's keys, each at its owner; other keys are not touched (SSN-14).

        With `initial`, the values of the session's own keys are also stored as its initial state.
        """
        # Sort the keys, as every writer does, so that two sessions of a user cannot deadlock.
        rows = [_state_row(key, name, delta[name], initial=initial) for name in sorted(delta)]
        if rows:
            self._connection.change(self._insert.state, rows)

    def locked_state(self, key: SessionKey, names: Collection[str]) -> dict[str, str]:
        """Read the values of keys, and lock them against other transactions until this one ends.

        Covers all keys that the transaction will set: a missing one may be stored as "" until then.
        """
        found: dict[str, str] = {}
        for name in sorted(names):  # in the order of `put_state`
            row = _state_row(key, name, "", initial=False)
            found[name] = self._scalar(self._insert.locked_state, row) or ""
        return {name: text for name, text in found.items() if text}

    def initial_state(self, key: SessionKey) -> dict[str, str]:
        """Read the initial values of the session's own keys."""
        rows = self._connection.rows(sql.INITIAL_STATE_OF, _params(key))
        return {row.key: row.initial for row in rows}

    def state(self, key: SessionKey) -> dict[str, str]:
        """Read the session's merged state: its own keys, its user's and its app's."""
        rows = self._connection.rows(sql.STATE_OF, _params(key))
        return {row.key: row.value for row in rows}

    def states(self, owners: Collection[SessionKey]) -> dict[SessionKey, dict[str, str]]:
        """Read the state of several owners, keyed by owner."""
        found: dict[SessionKey, dict[str, str]] = {}
        wanted = sorted(owners)
        for start in range(0, len(wanted), sql.OWNERS):
            query = sql.states_of(wanted[start : start + sql.OWNERS])
            for row in self._connection.rows(query, {}):
                key = SessionKey(row.app_name, row.user_id, row.session_id)
                found.setdefault(key, {})[row.key] = row.value
        return found

    def invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """Read an independent copy of the invocation's row."""
        row = self._one(sql.INVOCATION_OF, {**_params(key), "id": invocation_id})
        return None if row is None else _record(row)

    def invocations_by_time(
        self, wanted: InvocationsByTime
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Read the most or least recently updated invocations."""
        return [_keyed(row) for row in self._connection.rows(sql.by_time_query(wanted), {})]

    def count_invocations(self, app_name: str, user_id: str | None) -> dict[Status, int]:
        """Count the invocations of an app or of one of its users by status, without children's."""
        rows = self._connection.rows(sql.counts_query(app_name, user_id), {})
        return {Status(status): number for status, number in rows}

    def sessions_with(self, invocation_id: str) -> list[SessionKey]:
        """Return the sessions that have an invocation of this id, or a ticket of it."""
        rows = self._connection.rows(sql.SESSIONS_WITH, {"id": invocation_id})
        return [SessionKey(*row) for row in rows]

    def count_events(self, key: SessionKey, record: InvocationRecord) -> int:
        """Count the events of an invocation."""
        places = {"first": record.start_seq, "last": record.end_seq or sql.NO_LIMIT}
        which = {**_params(key), "id": record.invocation_id, **places}
        return self._scalar(sql.COUNT_EVENTS, which) or 0

    def put_invocation(self, key: SessionKey, record: InvocationRecord) -> None:
        """Add or replace the invocation's row."""
        self.changed.add(key)
        values = {**key._asdict(), **_columns(record)}
        values["error"] = None if record.error is None else json.dumps(record.error)
        self._connection.change(self._insert.invocation, values)

    def put_note(self, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
        """Add a note, or replace it with `replace`; return the body now stored."""
        statement = self._insert.last_note if replace else self._insert.first_note
        values = {**key._asdict(), **note._asdict(), "body": body}
        if self._connection.change(statement, values) == 1:
            return body
        (first,) = self._named(key, note)
        return first.body

    def find_note(self, key: SessionKey, note: NoteKey) -> Note | None:
        """Read the note with this key."""
        return next(iter(self._named(key, note)), None)

    def notes(
        self,
        key: SessionKey,
        invocation_id: str,
        kind: str,
        *,
        after: str | None,
        limit: int | None,
    ) -> list[Note]:
        """Read the notes of a kind whose names sort after `after`, ordered by name."""
        values = {"id": invocation_id, "kind": kind, "limit": _limit(limit)}
        if after is None:
            return self._notes(key, sql.FIRST_NOTES_OF, values)
        return self._notes(key, sql.NEXT_NOTES_OF, {**values, "after": after})

    def _named(self, key: SessionKey, note: NoteKey) -> list[Note]:
        return self._notes(key, sql.NOTE_OF, _note_params(note))

    def _notes(self, key: SessionKey, query: Executable, values: Values) -> list[Note]:
        rows = self._connection.rows(query, {**_params(key), **values})
        return [Note(name=row.name, body=row.body) for row in rows]

    def remove_note(self, key: SessionKey, note: NoteKey) -> None:
        """Remove a note, if there is one."""
        self._connection.change(sql.REMOVE_NOTE, {**_params(key), **_note_params(note)})

    def remove_notes(self, key: SessionKey, invocation_id: str, withdrawn_before: str = "") -> None:
        """Remove an invocation's notes, except those of the kinds `KEPT`.

        With `withdrawn_before` also what `remove_withdrawn` removes.
        """
        which = {"id": invocation_id, "before": withdrawn_before}
        self._connection.change(sql.REMOVE_NOTES, {**_params(key), **which})

    def remove_withdrawn(self, key: SessionKey, before: str) -> None:
        """Remove the session's notes of kind `WITHDRAWN` whose bodies sort before this one."""
        self._connection.change(sql.REMOVE_WITHDRAWN, {**_params(key), "before": before})

    def tickets(
        self, key: SessionKey, *, live_at: float | None = None, limit: int | None = None
    ) -> list[Ticket]:
        """Read copies of the session's tickets, in the order of their turns.

        With `live_at`, only tickets that are unexpired at that time; with `limit`, only the first
        ones.
        """
        query, values = sql.FIRST_TICKETS_OF, {**_params(key), "limit": _limit(limit)}
        if live_at is not None:
            query, values = sql.LIVE_TICKETS_OF, {**values, "now": live_at}
        return [Ticket.read(row._asdict()) for row in self._connection.rows(query, values)]

    def ticket(self, key: SessionKey, invocation_id: str) -> Ticket | None:
        """Read a copy of an invocation's ticket."""
        row = self._one(sql.TICKET_OF, {**_params(key), "id": invocation_id})
        return None if row is None else Ticket.read(row._asdict())

    def tickets_before(self, key: SessionKey, ticket: Ticket, live_at: float) -> int:
        """Count the session's unexpired tickets before this one."""
        place = {"position": ticket.position, "number": ticket.number, "now": live_at}
        return self._scalar(sql.TICKETS_BEFORE, {**_params(key), **place}) or 0

    def size_of_user(self, user: SessionKey) -> int:
        """Return the total size of a user's sessions, and of the state that they share."""
        whose = {"k_app": user.app_name, "k_user": user.user_id}
        sizes = [self._scalar(one, whose) for one in sql.SIZES_OF_USER]
        return sum(int(size or 0) for size in sizes)

    def tickets_of_user(self, key: SessionKey, live_at: float) -> int:
        """Count the unexpired tickets of the session's user in all sessions of the app."""
        whose = {"k_app": key.app_name, "k_user": key.user_id, "now": live_at}
        return self._scalar(sql.TICKETS_OF_USER, whose) or 0

    def ticket_count(self, key: SessionKey) -> tuple[int, int]:
        """Count the session's tickets, expired ones included; also return the highest number."""
        ((count, number),) = self._connection.rows(sql.TICKET_COUNT, _params(key))
        return count, number

    def put_ticket(self, key: SessionKey, ticket: Ticket, message: str | None) -> None:
        """Add or replace an invocation's ticket, with its steering message, if any."""
        values = {**key._asdict(), **_columns(ticket), "message": message}
        self._connection.change(self._insert.ticket, values)

    def message(self, key: SessionKey, invocation_id: str) -> str | None:
        """Read the message stored with an invocation's ticket."""
        return self._scalar(sql.MESSAGE_OF, {**_params(key), "id": invocation_id})

    def remove_ticket(self, key: SessionKey, invocation_id: str, expired_at: float) -> None:
        """Remove an invocation's ticket, if there is one, and all tickets expired at that time."""
        which = {"id": invocation_id, "now": expired_at}
        self._connection.change(sql.REMOVE_TICKET, {**_params(key), **which})


def _limit(limit: int | None) -> int:
    return sql.NO_LIMIT if limit is None else limit


def _head(row: Sequence[Any]) -> Head:
    return Head(**dict(zip(sql.HEAD, row, strict=True)))


def _fields(head: Head) -> dict[str, Any]:
    return {name: getattr(head, name) for name in sql.HEAD}


def _columns(row: InvocationRecord | Ticket) -> dict[str, Any]:
    return row.model_dump(mode="json")


def _state_row(key: SessionKey, name: str, value: str, *, initial: bool) -> dict[str, str | None]:
    own = owner(key, name)
    row = {**own._asdict(), "key": name, "value": value}
    return {**row, "initial": value if own == key else None} if initial else row


def _keyed(row: Any) -> tuple[SessionKey, InvocationRecord]:
    return SessionKey(*(getattr(row, name) for name in sql.KEY)), _record(row)


def _record(row: Any) -> InvocationRecord:
    fields = {column.name: getattr(row, column.name) for column in sql.INVOCATION_COLUMNS}
    error = fields["error"] and json.loads(fields["error"])
    return InvocationRecord.read({**fields, "error": error})
