"""Statements of the SQL session store.

Most are built once, at import, because building a statement takes longer than running it.
"""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Executable,
    RowMapping,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    column,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
    values,
)

from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.storage import InvocationPage, NoteKey, Page, Row, Window, owner
from durable_adk.sessions.records import ATTEMPT, WITHDRAWN, InvocationRecord, Note, Status, Ticket
from durable_adk.sessions.session import CHILD_PREFIX, Creation, SessionKey
from durable_adk.sessions.sql.inserts import inserts
from durable_adk.sessions.sql.invocation_query import page_query
from durable_adk.sessions.sql.schema import (
    EVENTS,
    INVOCATIONS,
    NOTES,
    SESSIONS,
    STATE,
    TICKETS,
    TOMBSTONES,
)

_KEY = SessionKey._fields
_HEAD = [column for column in SESSIONS.c if column.name not in _KEY]
_INVOCATION = [column for column in INVOCATIONS.c if column.name not in _KEY]

_APP: BindParameter[str] = bindparam("k_app")
_USER: BindParameter[str] = bindparam("k_user")
_SESSION: BindParameter[str] = bindparam("k_session")


def _params(key: SessionKey) -> dict[str, str]:
    return {"k_app": key.app_name, "k_user": key.user_id, "k_session": key.session_id}


def _is(table: Table) -> ColumnElement[bool]:
    return and_(table.c.app_name == _APP, table.c.user_id == _USER, table.c.session_id == _SESSION)


_HEAD_OF = select(*_HEAD).where(_is(SESSIONS))
_LOCKED_HEAD_OF = _HEAD_OF.with_for_update()  # SQLite has one writer at a time and ignores it
_SAVE_HEAD = update(SESSIONS).where(_is(SESSIONS))
_REMOVE = [
    delete(table).where(_is(table))
    for table in (NOTES, TICKETS, STATE, INVOCATIONS, EVENTS, SESSIONS)
]
_EVENTS_OF = select(EVENTS.c.seq, EVENTS.c.digest, EVENTS.c.body).where(_is(EVENTS))
_EVENT_OF = _EVENTS_OF.where(EVENTS.c.event_id == bindparam("id"))
_INVOCATION_OF = select(*_INVOCATION).where(
    _is(INVOCATIONS), INVOCATIONS.c.invocation_id == bindparam("id")
)
_TOMBSTONE_OF = select(TOMBSTONES.c.epoch, TOMBSTONES.c.delete_time).where(_is(TOMBSTONES))
_REMOVE_TOMBSTONE = delete(TOMBSTONES).where(_is(TOMBSTONES))
_REMOVE_TOMBSTONES = delete(TOMBSTONES).where(
    TOMBSTONES.c.app_name == _APP, TOMBSTONES.c.user_id == _USER
)
_APPS = select(SESSIONS.c.app_name).distinct()
_SESSIONS_OF = select(SESSIONS.c.session_id).where(
    SESSIONS.c.app_name == bindparam("app_name"), SESSIONS.c.user_id == bindparam("user_id")
)
_NEWEST_INVOCATIONS = (
    select(INVOCATIONS)
    .where(INVOCATIONS.c.app_name == _APP, INVOCATIONS.c.status == bindparam("status"))
    .order_by(INVOCATIONS.c.update_time.desc())
)
_STATE_OF = select(STATE.c.key, STATE.c.value).where(
    or_(
        and_(STATE.c.app_name == _APP, STATE.c.user_id == "", STATE.c.session_id == ""),
        and_(STATE.c.app_name == _APP, STATE.c.user_id == _USER, STATE.c.session_id == ""),
        _is(STATE),
    )
)
_NOTES_OF = (
    select(NOTES.c.name, NOTES.c.body)
    .where(_is(NOTES), NOTES.c.invocation_id == bindparam("id"), NOTES.c.kind == bindparam("kind"))
    .order_by(NOTES.c.name)
)
_NOTE_OF = _NOTES_OF.where(NOTES.c.name == bindparam("name"))
_REMOVE_NOTES = delete(NOTES).where(
    _is(NOTES), NOTES.c.invocation_id == bindparam("id"), NOTES.c.kind != ATTEMPT
)
_REMOVE_WITHDRAWN = delete(NOTES).where(
    _is(NOTES), NOTES.c.kind == WITHDRAWN, NOTES.c.body < bindparam("before")
)
_TICKETS_OF = (
    select(*(column for column in TICKETS.c if column.name not in (*_KEY, "message")))
    .where(_is(TICKETS))
    .order_by(TICKETS.c.place, TICKETS.c.number)
)
_LIVE = or_(TICKETS.c.expires_at.is_(None), TICKETS.c.expires_at > bindparam("now"))
_LIVE_TICKETS_OF = _TICKETS_OF.where(_LIVE)
_TICKET_OF = _TICKETS_OF.where(TICKETS.c.invocation_id == bindparam("id"))
_PLACE, _NUMBER = TICKETS.c.place, TICKETS.c.number
_TICKETS_BEFORE = select(func.count()).where(
    _is(TICKETS),
    _LIVE,
    or_(
        bindparam("place") > _PLACE,
        and_(bindparam("place") == _PLACE, bindparam("number") > _NUMBER),
    ),
)
_TICKETS_OF_USER = select(func.count()).where(
    TICKETS.c.app_name == _APP, TICKETS.c.user_id == _USER, _LIVE
)
_TICKET_COUNT = select(func.count(), func.coalesce(func.max(TICKETS.c.number), 0)).where(
    _is(TICKETS)
)
_MESSAGE_OF = select(TICKETS.c.message).where(
    _is(TICKETS), TICKETS.c.invocation_id == bindparam("id")
)
_REMOVE_TICKET = delete(TICKETS).where(
    _is(TICKETS),
    or_(TICKETS.c.invocation_id == bindparam("id"), TICKETS.c.expires_at <= bindparam("now")),
)

# In the order of an index. Uses `substr` because LIKE ignores case in SQLite.
_POSITION = tuple_(SESSIONS.c.update_time, SESSIONS.c.user_id, SESSIONS.c.session_id)
_LISTED = (
    select(SESSIONS)
    .where(func.substr(SESSIONS.c.session_id, 1, len(CHILD_PREFIX)) != CHILD_PREFIX)
    .order_by(SESSIONS.c.update_time, SESSIONS.c.user_id, SESSIONS.c.session_id)
)
_OWNERS = 1000
"""Owners per statement; databases limit a statement's parameters to about 32,000."""
_INITIAL_STATE_OF = select(STATE.c.key, STATE.c.initial).where(
    _is(STATE), STATE.c.initial.is_not(None)
)
_STATES = select(*(column for column in STATE.c if column.name != "initial"))


class SqlTables:
    """Implements `Tables` over one connection, within its current transaction."""

    def __init__(self, connection: Connection, *, lock: bool) -> None:
        self._connection = connection
        self.changed: set[SessionKey] = set()
        """Sessions changed by the transaction, whose watches must be woken."""
        self._head_of = _LOCKED_HEAD_OF if lock else _HEAD_OF
        self._insert = inserts(connection.dialect.name)

    def head(self, key: SessionKey) -> Head | None:
        row = self._connection.execute(self._head_of, _params(key)).mappings().one_or_none()
        return None if row is None else Head(**row)

    def apps(self) -> list[str]:
        return sorted(self._connection.scalars(_APPS))

    def heads(
        self, app_name: str, user_id: str | None, page: Page
    ) -> list[tuple[SessionKey, Head]]:
        query = _LISTED.where(SESSIONS.c.app_name == app_name).limit(page.limit)
        if user_id is not None:
            query = query.where(SESSIONS.c.user_id == user_id)
        if page.since is not None:
            query = query.where(SESSIONS.c.update_time >= page.since)
        if page.after is not None:
            query = query.where(page.after < _POSITION)
        found: list[tuple[SessionKey, Head]] = []
        for row in self._connection.execute(query).mappings():
            fields = dict(row)
            key = SessionKey(*(fields.pop(name) for name in _KEY))
            found.append((key, Head(**fields)))
        return found

    def sessions_of(self, user: SessionKey) -> list[SessionKey]:
        rows = self._connection.execute(_SESSIONS_OF, user._asdict())
        return [SessionKey(user.app_name, user.user_id, row.session_id) for row in rows]

    def add_session(self, key: SessionKey, head: Head) -> bool:
        self.changed.add(key)
        values = {**key._asdict(), **asdict(head)}
        return self._connection.execute(self._insert.session, values).rowcount == 1

    def save_head(self, key: SessionKey, head: Head) -> None:
        self.changed.add(key)
        self._connection.execute(_SAVE_HEAD, {**_params(key), **asdict(head)})

    def tombstone(self, key: SessionKey) -> Creation | None:
        row = self._connection.execute(_TOMBSTONE_OF, _params(key)).one_or_none()
        return None if row is None else Creation(row.epoch + 1, row.delete_time)

    def remove_tombstone(self, key: SessionKey) -> None:
        self._connection.execute(_REMOVE_TOMBSTONE, _params(key))

    def remove_tombstones(self, user: SessionKey) -> None:
        whose = {"k_app": user.app_name, "k_user": user.user_id}
        self._connection.execute(_REMOVE_TOMBSTONES, whose)

    def remove_session(self, key: SessionKey) -> None:
        self.changed.add(key)
        head = self.head(key)  # locks the row, which serializes this with other commits
        if head is None and key.session_id:
            return  # a session created from now on is a new one and must not be removed
        if head is not None:
            row = {**key._asdict(), "epoch": head.lease_epoch, "delete_time": time.time()}
            self._connection.execute(self._insert.tombstone, row)
        for statement in _REMOVE:
            self._connection.execute(statement, _params(key))

    def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        values = {
            **key._asdict(),
            "seq": seq,
            "event_id": entry.event_id,
            "invocation_id": entry.invocation_id,
            "timestamp": entry.timestamp,
            "digest": entry.digest,
            "body": entry.body,
        }
        return self._connection.execute(self._insert.event, values).rowcount == 1

    def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        found = self._connection.execute(_EVENT_OF, {**_params(key), "id": event_id})
        row = found.one_or_none()
        return None if row is None else Row(*row)

    def events(self, key: SessionKey, window: Window) -> list[Row]:
        query = _EVENTS_OF.where(EVENTS.c.seq > window.after)
        if window.upto is not None:
            query = query.where(EVENTS.c.seq <= window.upto)
        if window.since is not None:
            query = query.where(EVENTS.c.timestamp >= window.since)
        if window.last is None:
            query = query.order_by(EVENTS.c.seq).limit(window.first)
        else:
            query = query.order_by(EVENTS.c.seq.desc()).limit(window.last)
        return sorted(Row(*row) for row in self._connection.execute(query, _params(key)))

    def put_state(self, key: SessionKey, delta: dict[str, str], *, initial: bool = False) -> None:
        # Sort the keys, as every writer does, so that two sessions of a user cannot deadlock.
        rows = [_state_row(key, name, delta[name], initial=initial) for name in sorted(delta)]
        if rows:
            self._connection.execute(self._insert.state, rows)

    def locked_state(self, key: SessionKey, names: Collection[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in sorted(names):  # in the order of `put_state`
            row = _state_row(key, name, "", initial=False)
            found[name] = self._connection.scalar(self._insert.locked_state, row) or ""
        return {name: text for name, text in found.items() if text}

    def initial_state(self, key: SessionKey) -> dict[str, str]:
        rows = self._connection.execute(_INITIAL_STATE_OF, _params(key))
        return {row.key: row.initial for row in rows}

    def state(self, key: SessionKey) -> dict[str, str]:
        rows = self._connection.execute(_STATE_OF, _params(key))
        return {row.key: row.value for row in rows}

    def states(self, owners: Collection[SessionKey]) -> dict[SessionKey, dict[str, str]]:
        found: dict[SessionKey, dict[str, str]] = {}
        wanted = sorted(owners)
        for start in range(0, len(wanted), _OWNERS):
            for row in self._connection.execute(_states_of(wanted[start : start + _OWNERS])):
                key = SessionKey(row.app_name, row.user_id, row.session_id)
                found.setdefault(key, {})[row.key] = row.value
        return found

    def invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        found = self._connection.execute(_INVOCATION_OF, {**_params(key), "id": invocation_id})
        row = found.mappings().one_or_none()
        return None if row is None else _record(row)

    def invocations(
        self, app_name: str, user_id: str | None, status: Status, limit: int
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        query = _NEWEST_INVOCATIONS.limit(limit)
        if user_id is not None:
            query = query.where(INVOCATIONS.c.user_id == user_id)
        found = self._connection.execute(query, {"k_app": app_name, "status": status.value})
        return [_keyed(row) for row in found.mappings()]

    def page_of_invocations(
        self, page: InvocationPage
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        return [_keyed(row) for row in self._connection.execute(page_query(page)).mappings()]

    def put_invocation(self, key: SessionKey, record: InvocationRecord) -> None:
        self.changed.add(key)
        values = {**key._asdict(), **_columns(record)}
        values["error"] = None if record.error is None else json.dumps(record.error)
        self._connection.execute(self._insert.invocation, values)

    def put_note(self, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
        statement = self._insert.last_note if replace else self._insert.first_note
        values = {**key._asdict(), **note._asdict(), "body": body}
        if self._connection.execute(statement, values).rowcount == 1:
            return body
        (first,) = self._named(key, note)
        return first.body

    def find_note(self, key: SessionKey, note: NoteKey) -> Note | None:
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
        query = _NOTES_OF.limit(limit)
        if after is not None:
            query = query.where(NOTES.c.name > after)
        return self._notes(key, query, {"id": invocation_id, "kind": kind})

    def _named(self, key: SessionKey, note: NoteKey) -> list[Note]:
        named = {"id": note.invocation_id, "kind": note.kind, "name": note.name}
        return self._notes(key, _NOTE_OF, named)

    def _notes(self, key: SessionKey, query: Executable, values: dict[str, str]) -> list[Note]:
        rows = self._connection.execute(query, {**_params(key), **values})
        return [Note(name=row.name, body=row.body) for row in rows]

    def remove_notes(self, key: SessionKey, invocation_id: str) -> None:
        self._connection.execute(_REMOVE_NOTES, {**_params(key), "id": invocation_id})

    def remove_withdrawn(self, key: SessionKey, before: str) -> None:
        self._connection.execute(_REMOVE_WITHDRAWN, {**_params(key), "before": before})

    def tickets(
        self, key: SessionKey, *, live_at: float | None = None, limit: int | None = None
    ) -> list[Ticket]:
        query, values = _TICKETS_OF, _params(key)
        if live_at is not None:
            query, values = _LIVE_TICKETS_OF, {**values, "now": live_at}
        rows = self._connection.execute(query.limit(limit), values).mappings()
        return [Ticket.read(dict(row)) for row in rows]

    def ticket(self, key: SessionKey, invocation_id: str) -> Ticket | None:
        found = self._connection.execute(_TICKET_OF, {**_params(key), "id": invocation_id})
        row = found.mappings().one_or_none()
        return None if row is None else Ticket.read(dict(row))

    def tickets_before(self, key: SessionKey, ticket: Ticket, live_at: float) -> int:
        place = {"place": ticket.place, "number": ticket.number, "now": live_at}
        return self._connection.scalar(_TICKETS_BEFORE, {**_params(key), **place}) or 0

    def tickets_of_user(self, key: SessionKey, live_at: float) -> int:
        whose = {"k_app": key.app_name, "k_user": key.user_id, "now": live_at}
        return self._connection.scalar(_TICKETS_OF_USER, whose) or 0

    def ticket_count(self, key: SessionKey) -> tuple[int, int]:
        count, number = self._connection.execute(_TICKET_COUNT, _params(key)).one()
        return count, number

    def put_ticket(self, key: SessionKey, ticket: Ticket, message: str | None) -> None:
        values = {**key._asdict(), **_columns(ticket), "message": message}
        self._connection.execute(self._insert.ticket, values)

    def message(self, key: SessionKey, invocation_id: str) -> str | None:
        return self._connection.scalar(_MESSAGE_OF, {**_params(key), "id": invocation_id})

    def remove_ticket(self, key: SessionKey, invocation_id: str, expired_at: float) -> None:
        which = {"id": invocation_id, "now": expired_at}
        self._connection.execute(_REMOVE_TICKET, {**_params(key), **which})


def _columns(row: InvocationRecord | Ticket) -> dict[str, Any]:
    values = row.model_dump(mode="json")
    return {**values, "holder": values.pop("lease_owner")}


def _states_of(owners: Sequence[SessionKey]) -> Select[Any]:
    """Build the query for the owners' state; a join, as SQLite scans the whole table for IN."""
    wanted = values(*(column(name, Text) for name in _KEY), name="wanted").data(owners).cte()
    return _STATES.join_from(wanted, STATE, and_(*(STATE.c[n] == wanted.c[n] for n in _KEY)))


def _state_row(key: SessionKey, name: str, value: str, *, initial: bool) -> dict[str, str | None]:
    own = owner(key, name)
    row = {**own._asdict(), "key": name, "value": value}
    return {**row, "initial": value if own == key else None} if initial else row


def _keyed(row: RowMapping) -> tuple[SessionKey, InvocationRecord]:
    return SessionKey(*(row[name] for name in _KEY)), _record(row)


def _record(row: RowMapping) -> InvocationRecord:
    fields = {column.name: row[column.name] for column in _INVOCATION}
    error = fields["error"] and json.loads(fields["error"])
    return InvocationRecord.read({**fields, "error": error})
