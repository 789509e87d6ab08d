"""Sessions stored in the memory of the process."""

import asyncio
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import nsmallest
from threading import Lock
from typing import Any

from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.storage import (
    InvocationPage,
    InvocationPosition,
    InvocationsByTime,
    NoteKey,
    Page,
    Position,
    Row,
    T,
    Tables,
    Window,
    owner,
    owners,
)
from durable_adk.sessions.records import (
    KEPT,
    SESSION_SIZE,
    WITHDRAWN,
    InvocationRecord,
    ListSessionsResponse,
    Note,
    Status,
    Ticket,
)
from durable_adk.sessions.session import Creation, Session, SessionKey
from durable_adk.sessions.session_log import SessionLog


class InMemorySessionService(SessionLog):
    """The whole session store in memory, for tests and scripts; usable from any thread (TRAP-8)."""

    def __init__(self) -> None:
        super().__init__(_MemoryStore())

    def create_session_sync(self, **given: Any) -> Session:
        """Deprecated, as in ADK: `create_session` for code without an event loop."""
        return _at_once(self.create_session(**given))

    def get_session_sync(self, **given: Any) -> Session | None:
        """Deprecated, as in ADK: `get_session` for code without an event loop."""
        return _at_once(self.get_session(**given))

    def list_sessions_sync(self, **given: Any) -> ListSessionsResponse:
        """Deprecated, as in ADK: `list_sessions` for code without an event loop."""
        return _at_once(self.list_sessions(**given))

    def delete_session_sync(self, **given: Any) -> None:
        """Deprecated, as in ADK: `delete_session` for code without an event loop."""
        _at_once(self.delete_session(**given))


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own, so that it also works inside of an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@dataclass(slots=True)
class _Log:
    head: Head
    entries: list[Entry] = field(default_factory=list[Entry])
    seqs: dict[str, int] = field(default_factory=dict[str, int])
    invocations: dict[str, InvocationRecord] = field(default_factory=dict[str, InvocationRecord])
    notes: dict[NoteKey, str] = field(default_factory=dict[NoteKey, str])
    tickets: dict[str, Ticket] = field(default_factory=dict[str, Ticket])
    messages: dict[str, str | None] = field(default_factory=dict[str, str | None])


class _MemoryStore:
    """Guards plain tables by one lock, held for microseconds, so it does not block event loops.

    The rules check before they change anything, so no rollback is needed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables = _MemoryTables()

    async def read(self, work: Callable[[Tables], T]) -> T:
        with self._lock:
            return work(self._tables)

    async def write(self, work: Callable[[Tables], T]) -> T:
        return await self.read(work)


class _MemoryTables:
    def __init__(self) -> None:
        self._logs: dict[SessionKey, _Log] = {}
        self._state: defaultdict[SessionKey, dict[str, str]] = defaultdict(dict)
        self._initial: dict[SessionKey, dict[str, str]] = {}
        self._tombstones: dict[SessionKey, Creation] = {}

    def head(self, key: SessionKey) -> Head | None:
        log = self._logs.get(key)
        return log and log.head

    def apps(self) -> list[str]:
        return sorted({key.app_name for key in self._logs})

    def heads(
        self, app_name: str, user_id: str | None, page: Page
    ) -> list[tuple[SessionKey, Head]]:
        newest = page.newest_first
        places = (
            (Position(log.head.update_time, key.user_id, key.session_id), log.head)
            for key, log in self._logs.items()
            if key.app_name == app_name and user_id in (None, key.user_id) and not key.is_child
        )
        found = sorted(places, key=lambda one: one[0], reverse=newest)
        return [
            (SessionKey(app_name, place.user_id, place.session_id), head)
            for place, head in found
            if (page.after is None or (place < page.after if newest else place > page.after))
            and (page.since is None or place.update_time >= page.since)
        ][: page.limit]

    def sessions_of(self, user: SessionKey, prefix: str = "") -> list[SessionKey]:
        mine = [key for key in self._logs if key[:2] == user[:2]]
        return [key for key in mine if key.session_id.startswith(prefix)]

    def add_session(self, key: SessionKey, head: Head) -> bool:
        return self._logs.setdefault(key, log := _Log(head)) is log

    def save_head(self, key: SessionKey, head: Head) -> None:
        self._logs[key].head = head

    def add_tombstone(self, key: SessionKey, creation: Creation) -> None:
        self._tombstones[key] = creation

    def remove_session(self, key: SessionKey) -> None:
        self._logs.pop(key, None)
        self._state.pop(key, None)
        self._initial.pop(key, None)

    def tombstone(self, key: SessionKey) -> Creation | None:
        return self._tombstones.get(key)

    def remove_tombstone(self, key: SessionKey) -> None:
        del self._tombstones[key]

    def remove_tombstones(self, user: SessionKey) -> None:
        kept = {key: one for key, one in self._tombstones.items() if key[:2] != user[:2]}
        self._tombstones = kept

    def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        log = self._logs[key]
        if entry.event_id in log.seqs:
            return False
        log.seqs[entry.event_id] = seq
        log.entries.append(entry)
        return True

    def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        log = self._logs.get(key)
        seq = log and log.seqs.get(event_id)
        return _row(seq, log.entries[seq - 1]) if log and seq else None

    def events(self, key: SessionKey, window: Window) -> list[Row]:
        log = self._logs.get(key)
        entries = log.entries[window.after : window.upto] if log else []
        rows = [
            _row(seq, entry)
            for seq, entry in enumerate(entries, start=window.after + 1)
            if window.since is None or entry.timestamp >= window.since
        ]
        rows = list(window.fitting(rows[: window.first]))
        return rows if window.last is None else rows[len(rows) - min(window.last, len(rows)) :]

    def put_state(self, key: SessionKey, delta: dict[str, str], *, initial: bool = False) -> None:
        for name, text in delta.items():
            self._state[owner(key, name)][name] = text
        if initial:
            own = {name: text for name, text in delta.items() if owner(key, name) == key}
            self._initial[key] = own

    def locked_state(self, key: SessionKey, names: Collection[str]) -> dict[str, str]:
        return {name: text for name, text in self.state(key).items() if name in names}

    def initial_state(self, key: SessionKey) -> dict[str, str]:
        return dict(self._initial.get(key, {}))

    def state(self, key: SessionKey) -> dict[str, str]:
        return {
            name: text for one in owners(key) for name, text in self._state.get(one, {}).items()
        }

    def states(self, owners: Collection[SessionKey]) -> dict[SessionKey, dict[str, str]]:
        return {one: dict(self._state[one]) for one in owners if one in self._state}

    def invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        log = self._logs.get(key)
        record = log and log.invocations.get(invocation_id)
        return record.model_copy(deep=True) if record else None

    def page_of_invocations(
        self, page: InvocationPage
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        last = page.after and (page.after[0], page.after[1].invocation_id)
        found = [
            (key, name)
            for key, log in self._logs.items()
            if key.app_name == page.app_name
            and page.user_id in (None, key.user_id)
            and page.session_id in (None, key.session_id)
            for name, record in log.invocations.items()
            if (not page.statuses or record.status in page.statuses)
            and (last is None or (key, name) > last)
        ]
        chosen = [(key, self.invocation(key, name)) for key, name in nsmallest(page.limit, found)]
        return [(key, record) for key, record in chosen if record is not None]

    def invocations_by_time(
        self, wanted: InvocationsByTime
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        found = [
            (InvocationPosition.of(key, record), key)
            for key, log in self._logs.items()
            if key.app_name == wanted.app_name
            and wanted.user_id in (None, key.user_id)
            and wanted.session_id in (None, key.session_id)
            for record in log.invocations.values()
            if not wanted.statuses or record.status in wanted.statuses
        ]
        found.sort(reverse=not wanted.oldest_first)
        if wanted.beyond is not None:
            passed = operator.gt if wanted.oldest_first else operator.lt
            found = [one for one in found if passed(one[0], wanted.beyond)]
        chosen = found[: wanted.limit]
        records = [(key, self.invocation(key, place.invocation_id)) for place, key in chosen]
        return [(key, record) for key, record in records if record is not None]

    def count_invocations(self, app_name: str, user_id: str | None) -> dict[Status, int]:
        return Counter(
            record.status
            for key, log in self._logs.items()
            if key.app_name == app_name and user_id in (None, key.user_id) and not key.is_child
            for record in log.invocations.values()
        )

    def sessions_with(self, invocation_id: str) -> list[SessionKey]:
        return [
            key
            for key, log in self._logs.items()
            if invocation_id in log.invocations or invocation_id in log.tickets
        ]

    def count_events(self, key: SessionKey, record: InvocationRecord) -> int:
        events = self.events(key, Window(after=record.start_seq - 1, upto=record.end_seq))
        names = [decode_event(row.body).invocation_id for row in events]
        return names.count(record.invocation_id)

    def put_invocation(self, key: SessionKey, record: InvocationRecord) -> None:
        self._logs[key].invocations[record.invocation_id] = record.model_copy(deep=True)

    def put_note(self, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
        notes = self._logs[key].notes
        if replace:
            notes[note] = body
        return notes.setdefault(note, body)

    def find_note(self, key: SessionKey, note: NoteKey) -> Note | None:
        log = self._logs.get(key)
        body = log and log.notes.get(note)
        return None if body is None else Note(name=note.name, body=body)

    def notes(
        self,
        key: SessionKey,
        invocation_id: str,
        kind: str,
        *,
        after: str | None,
        limit: int | None,
    ) -> list[Note]:
        log = self._logs.get(key)
        found = [
            Note(name=note.name, body=body)
            for note, body in sorted(log.notes.items() if log else ())
            if (note.invocation_id, note.kind) == (invocation_id, kind)
            and (after is None or note.name > after)
        ]
        return found[:limit]

    def remove_note(self, key: SessionKey, note: NoteKey) -> None:
        if log := self._logs.get(key):
            log.notes.pop(note, None)

    def remove_notes(self, key: SessionKey, invocation_id: str) -> None:
        log = self._logs[key]
        log.notes = {
            note: body
            for note, body in log.notes.items()
            if note.invocation_id != invocation_id or note.kind in KEPT
        }

    def remove_withdrawn(self, key: SessionKey, before: str) -> None:
        log = self._logs[key]
        log.notes = {
            note: body
            for note, body in log.notes.items()
            if note.kind != WITHDRAWN or body >= before
        }

    def tickets(
        self, key: SessionKey, *, live_at: float | None = None, limit: int | None = None
    ) -> list[Ticket]:
        log = self._logs.get(key)
        found = log.tickets.values() if log and log.tickets else ()
        live = [one for one in found if live_at is None or _is_live(one, live_at)]
        ordered = sorted(live, key=lambda one: (one.position, one.number))
        return [one.model_copy() for one in ordered[:limit]]

    def ticket(self, key: SessionKey, invocation_id: str) -> Ticket | None:
        log = self._logs.get(key)
        found = log and log.tickets.get(invocation_id)
        return found.model_copy() if found else None

    def tickets_before(self, key: SessionKey, ticket: Ticket, live_at: float) -> int:
        place = ticket.position, ticket.number
        found = self._logs[key].tickets.values()
        return sum((one.position, one.number) < place and _is_live(one, live_at) for one in found)

    def size_of_user(self, user: SessionKey) -> int:
        sizes = [SESSION_SIZE + self._logs[key].head.size for key in self.sessions_of(user)]
        return sum(sizes) + sum(map(len, self._state.get(user, {}).values()))

    def tickets_of_user(self, key: SessionKey, live_at: float) -> int:
        return sum(
            _is_live(one, live_at)
            for session in self.sessions_of(key)
            for one in self._logs[session].tickets.values()
        )

    def ticket_count(self, key: SessionKey) -> tuple[int, int]:
        found = self._logs[key].tickets.values()
        return len(found), max((one.number for one in found), default=0)

    def put_ticket(self, key: SessionKey, ticket: Ticket, message: str | None) -> None:
        log = self._logs[key]
        log.tickets[ticket.invocation_id] = ticket.model_copy()
        log.messages[ticket.invocation_id] = message

    def message(self, key: SessionKey, invocation_id: str) -> str | None:
        log = self._logs.get(key)
        return log.messages.get(invocation_id) if log else None

    def remove_ticket(self, key: SessionKey, invocation_id: str, expired_at: float) -> None:
        log = self._logs[key]
        gone = {name for name, one in log.tickets.items() if not _is_live(one, expired_at)}
        for name in gone | {invocation_id}:
            log.tickets.pop(name, None)
            log.messages.pop(name, None)


def _is_live(ticket: Ticket, now: float) -> bool:
    return ticket.expires_at is None or ticket.expires_at > now


def _row(seq: int, entry: Entry) -> Row:
    return Row(seq, entry.digest, entry.body)
