"""Copies sessions from and to another program's store."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from durable_adk.errors import EventConflictError, StaleSessionError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.json_values import canonical
from durable_adk.sessions.log.entry import Entry, check_state, decode, encode, session_copy
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.rebuild import is_own
from durable_adk.sessions.log.sessions import add, append, view
from durable_adk.sessions.log.storage import Window
from durable_adk.sessions.log.transactions import Transactions
from durable_adk.sessions.records import GetSessionConfig, InvocationRecord, Status
from durable_adk.sessions.session import Session, SessionKey, checked_key
from durable_adk.sessions.sql.tables import Tables

_FIELDS = frozenset(
    each for name, item in Event.model_fields.items() for each in (name, str(item.alias))
)
_ACTIONS = frozenset(
    each for name, item in EventActions.model_fields.items() for each in (name, str(item.alias))
)
_OTHER_PROGRAM = "google-adk"
"""Lease owner of copied invocations, which have ended and hold no lease."""


class CopiedEvent(NamedTuple):
    """An event, and its fields that only the other program knows."""

    event: Event
    rest: dict[str, Any]
    """The fields of its JSON form that `Event` lacks. They are stored unread, so that a copy back
    has them."""

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> "CopiedEvent":
        """Read an event's JSON object.

        Raises:
            ValidationError: It is not an event.
        """
        rest = {name: item for name, item in value.items() if name not in _FIELDS}
        actions = cast("dict[str, Any]", value.get("actions") or {})
        if more := {name: item for name, item in actions.items() if name not in _ACTIONS}:
            rest["actions"] = more
        return cls(Event.from_json(json.dumps(value)), rest)

    def is_same(self, other: "CopiedEvent") -> bool:
        """Return whether both are the same event; a copy may have a different timestamp."""
        mine, theirs = (one.event.model_copy(update={"timestamp": 0}) for one in (self, other))
        # Regardless of the order of keys, which JSONB does not keep.
        return mine.id == theirs.id and canonical(mine.to_value()) == canonical(theirs.to_value())

    def as_adk(self) -> dict[str, Any]:
        """Return the event's JSON object as google-adk writes it, with Python's field names."""
        value = self.event.model_dump(mode="json", exclude_none=True)
        configs = self.event.actions.requested_auth_configs.items()
        value["actions"]["requested_auth_configs"] = {
            call: config.model_dump(mode="json", exclude_none=True) for call, config in configs
        }
        return self._with_rest(value)

    def entry(self) -> Entry:
        """Return the form in which it is stored.

        Raises:
            InvalidRequestError: It has no id, or is partial.
            StateValueError: A value is not JSON.
        """
        entry = Entry.of(self.event)
        if not self.rest:
            return entry
        body = json.dumps(self._with_rest(json.loads(entry.body)), ensure_ascii=False)
        return replace(entry, body=body)

    def _with_rest(self, value: dict[str, Any]) -> dict[str, Any]:
        rest = dict(self.rest)
        actions = rest.pop("actions", {}) | value.get("actions", {})
        return rest | value | ({"actions": actions} if actions else {})


class CopiedSession(NamedTuple):
    """A session without its events."""

    key: SessionKey
    state: dict[str, Any]
    """The session's own keys."""
    create_time: float
    """Seconds since the epoch."""
    update_time: float
    events: int = 0
    """Number of its events, where known."""


class Copies(Transactions):
    """Operations that copy sessions; no other program may write to these sessions meanwhile."""

    async def copy_session(
        self, session: CopiedSession, events: Sequence[CopiedEvent], *, after: int = 0
    ) -> None:
        """Store a session with its state and its events, in one transaction.

        App and user state are not touched; see `copy_state`.

        Args:
            session: The session.
            events: All its events.
            after: The number of its first events that are stored already; 0 creates the session.

        Raises:
            StaleSessionError: The stored session does not have `after` events, or an invocation is
                active in it.
            EventConflictError: The id of an event is taken in the session.
            StateValueError: A value is not JSON.
            InvalidRequestError: An id is invalid.
        """
        key = checked_key(*session.key)
        entries = [item.entry() for item in events[after:]]
        check_state(session.state)
        set_by_events = {name for item in events for name in item.event.actions.state_delta}
        initial = {k: value for k, value in session.state.items() if k not in set_by_events}
        await self._change(_put, key, session, entries, after=after, initial=initial)

    async def copy_state(self, key: SessionKey, values: Mapping[str, Any]) -> dict[str, Any]:
        """Set those keys of app and user state that have no value yet.

        Args:
            key: Key of any session of the user; with empty ids, of the user or the app itself.
            values: Values by prefixed key.

        Returns:
            The stored values that differ from these; they are kept.

        Raises:
            StateValueError: A value is not JSON.
        """
        check_state(dict(values))
        return await self._store.write(lambda tables: _put_state(tables, key, dict(values)))

    async def read_copied(self, key: SessionKey, *, limit: int | None = None) -> list[CopiedEvent]:
        """Read the first events, each with the other program's fields."""
        rows = await self._store.read(lambda tables: tables.events(key, Window(first=limit)))
        return [CopiedEvent.read(json.loads(row.body)) for row in rows]

    async def read_conversation(
        self, key: SessionKey, config: GetSessionConfig
    ) -> tuple[Session, list[CopiedEvent]] | None:
        """Read a session without its events, and the selected events, at one point in time.

        Raises:
            InvalidRequestError: An id is invalid.
        """
        key = checked_key(*key)
        window = Window(since=config.after_timestamp, last=config.num_recent_events)
        found = await self._store.read(lambda tables: view(tables, key, window))
        if found is None:
            return None
        events = [CopiedEvent.read(json.loads(row.body)) for row in found.rows]
        return session_copy(key, found.head, found.state), events

    async def append_copied(
        self, key: SessionKey, item: CopiedEvent, *, revision: int
    ) -> CopiedSession:
        """Append an event of another program, outside any invocation of this package.

        Returns:
            The session after the event, without its state.

        Raises:
            StaleSessionError: Events were stored after `revision`.
            SessionNotFoundError: There is no such session.
            EventConflictError: The id is taken by a different event.
        """
        entry = item.entry()
        return await self._change(_append, key, entry, revision)

    async def read_session(self, key: SessionKey) -> CopiedSession | None:
        """Read a session without its events; None if it is missing."""
        return await self._store.read(lambda tables: _session(tables, key))


def _put(
    tables: Tables,
    key: SessionKey,
    session: CopiedSession,
    entries: list[Entry],
    *,
    after: int,
    initial: dict[str, Any],
) -> None:
    head = tables.head(key)
    if (head.revision if head else 0) != after or (head and head.lease_invocation_id):
        raise StaleSessionError(
            f"The session {key.session_id!r} was changed while it was copied; run this again."
        )
    made = Head(create_time=session.create_time, update_time=session.update_time)
    head = head or add(tables, key, made) or made
    state = dict[str, str]()
    for number, entry in enumerate(entries, after + 1):
        if not tables.add_event(key, number, entry):
            raise EventConflictError(f"The id {entry.event_id!r} is taken by another event.")
        state |= {name: text for name, text in entry.delta.items() if is_own(key, name)}
    _record(tables, key, after + 1, entries)
    tables.put_state(key, encode(initial), initial=True)
    tables.put_state(key, state | encode(session.state))
    updated = max(head.update_time, session.update_time)
    size = head.size + sum(len(entry.body) for entry in entries)
    revision = after + len(entries)
    tables.save_head(key, replace(head, revision=revision, update_time=updated, size=size))


def _append(tables: Tables, key: SessionKey, entry: Entry, revision: int) -> CopiedSession:
    row, head = append(tables, key, entry, revision)
    if row.seq > revision:  # else a repeat
        _record(tables, key, row.seq, [entry])
    return CopiedSession(key, {}, head.create_time, head.update_time, row.seq)


def _record(tables: Tables, key: SessionKey, first: int, entries: list[Entry]) -> None:
    """Record the other program's invocations as completed, so that late answers are accepted.

    Args:
        tables: The store's tables.
        key: The session.
        first: The number of the first event.
        entries: The events.
    """
    records = dict[str, InvocationRecord]()
    for number, entry in enumerate(entries, first):
        name = entry.invocation_id
        known = records.get(name) or (tables.invocation(key, name) if name else None)
        if not name or (known and known.lease_owner != _OTHER_PROGRAM):
            continue
        records[name] = InvocationRecord(
            invocation_id=name,
            status=Status.COMPLETED,
            epoch=known.epoch if known else 0,
            lease_owner=_OTHER_PROGRAM,
            start_seq=known.start_seq if known else number,
            end_seq=number,
            update_time=entry.timestamp,
        )
    for record in records.values():
        tables.put_invocation(key, record)


def _put_state(tables: Tables, key: SessionKey, values: dict[str, Any]) -> dict[str, Any]:
    stored = decode(tables.locked_state(key, values))
    missing = {name: value for name, value in values.items() if name not in stored}
    tables.put_state(key, encode(missing))
    return {name: value for name, value in stored.items() if value != values[name]}


def _session(tables: Tables, key: SessionKey) -> CopiedSession | None:
    head = tables.head(key)
    if head is None:
        return None
    state = {name: text for name, text in tables.state(key).items() if is_own(key, name)}
    return CopiedSession(key, decode(state), head.create_time, head.update_time, head.revision)
