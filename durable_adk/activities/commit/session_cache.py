"""Caches the events of recently used sessions on one worker."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any, NamedTuple

from pydantic import BaseModel

from durable_adk.conversation.contents import KeptContents
from durable_adk.events.event import Event
from durable_adk.sessions.log.entry import stored_copy
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import Limits

MAX_SESSIONS = 256
"""Maximum number of cached sessions."""
_LEAVES = frozenset((str, bytes, float))
_COLLECTIONS = frozenset((list, tuple, set, frozenset))
_SMALL_INTS = range(-5, 257)
"""Integers that CPython shares."""


def memory_of(event: Event) -> int:
    """Return the bytes of memory that an event takes.

    The length of the stored body is a poor estimate: a character of text takes one byte of memory,
    and one of nested JSON up to 24. So the event is traversed, iteratively because it may be nested
    deeply. Objects that all events share are not counted; a string that occurs twice is counted
    twice.
    """
    size, waiting = 0, list[Any]((event,))
    while waiting:
        value = waiting.pop()
        kind = value.__class__  # comparing classes is twice as fast as isinstance
        if kind in _LEAVES:
            size += getsizeof(value)
        elif kind is int:
            size += 0 if value in _SMALL_INTS else getsizeof(value)
        elif kind is dict:
            size += getsizeof(value)
            waiting += value
            waiting += value.values()
        elif kind in _COLLECTIONS:
            size += getsizeof(value)
            waiting += value
        elif isinstance(value, BaseModel):
            fields = vars(value)
            size += getsizeof(value) + getsizeof(fields) + getsizeof(value.model_fields_set)
            waiting += fields.values()
            waiting.append(value.model_extra)
    return size


class KnownEvents(NamedTuple):
    """The events that a step may see."""

    events: list[Event]
    """A list owned by the caller. The events in it are shared; user code gets copies (TRAP-23)."""
    start: int
    """Position of the first event of the step's invocation, or the list's length if there is
    none."""
    calls: Mapping[str, int]
    """Positions of the invocation's function calls by id, including those of later events."""
    revision: int
    """The number of events."""
    contents: KeptContents
    """What has been rendered of the session's events."""
    created_epoch: int = 0
    """The lease's epoch when the session was created: 0 unless an earlier one of its name was
    deleted."""

    @classmethod
    def of(cls, events: list[Event], invocation_id: str) -> "KnownEvents":
        """Index a list of events."""
        return _Entry.of(events, sized=False).known(len(events), invocation_id)

    def has_call(self, call_id: str) -> bool:
        """Return whether one of the invocation's calls has this id."""
        return self.calls.get(call_id, self.revision) < self.revision


class SessionCache:
    """Caches events of recently used sessions, so that a step reads only the missing tail (D3).

    Committed events never change and are only appended, so an entry can be stale but not wrong,
    unless the session was deleted and created again. An invocation's first step on this worker
    checks for that; for later steps the epoch rules it out.

    The least recently used sessions are evicted. A session that exceeds `max_bytes` by itself is
    not cached, and each of its steps reads it in full.

    Args:
        max_bytes: Maximum bytes of memory for their events, see `memory_of`, and for what is
            rendered of them for models.
    """

    def __init__(self, *, max_bytes: int = Limits().session_cache_bytes) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._total = 0
        """The sum of `_Entry.counted`."""
        self._lock = threading.Lock()  # steps and commits come from two event loops

    @property
    def bytes(self) -> int:
        """Bytes of memory that the cached events, and what is rendered of them, take."""
        with self._lock:
            return sum(entry.bytes for entry in self._entries.values())

    async def read(
        self, sessions: SessionLog, key: SessionKey, revision: int, invocation_id: str
    ) -> KnownEvents:
        """Return the session's first `revision` events.

        Args:
            sessions: The store, for events that are not cached.
            key: The session's key.
            revision: The number of events.
            invocation_id: The invocation of the step that reads.
        """
        entry = self._entries.get(key)
        if entry is None or entry.seen_by != invocation_id:
            # A new entry: an invocation that uses the old one must find it unchanged.
            entry = await _verified(self._copy(entry), sessions, key, revision)
            entry.seen_by = invocation_id
        elif (known := len(entry.events)) < revision:
            tail = await sessions.read_events(key, after=known, upto=revision)
            with self._lock:
                entry.extend(known, _events(tail))
        self._keep(key, entry)
        return entry.known(revision, invocation_id)

    def begin(self, key: SessionKey, event: Event, *, epoch: int) -> None:
        """Cache the first event of a new session, replacing any entry under the same key.

        Args:
            key: The session's key.
            event: The event.
            epoch: The epoch of its invocation, whose lease is the session's first.
        """
        entry = _Entry.of([_stored(key, event)], event.invocation_id)
        entry.creation = Creation(epoch - 1, 0.0)  # read by the next invocation, with the time
        self._keep(key, entry)

    def add(self, key: SessionKey, seq: int, event: Event) -> None:
        """Cache an event that was just committed, if it is the next one.

        Skipped while the event's invocation has yet to verify the entry: the verification compares
        the last event.
        """
        entry = self._entries.get(key)
        if entry is None or entry.seen_by != event.invocation_id or entry.revision != seq - 1:
            return
        with self._lock:
            entry.extend(seq - 1, [_stored(key, event)])
            if self._entries.get(key) is entry:  # otherwise it was evicted
                self._put(key, entry)

    def _copy(self, entry: "_Entry | None") -> "_Entry":
        with self._lock:  # a dict must not grow while it is iterated over
            return entry.copy() if entry else _Entry("")

    def _keep(self, key: SessionKey, entry: "_Entry") -> None:
        with self._lock:
            self._put(key, entry)

    def _put(self, key: SessionKey, entry: "_Entry") -> None:
        self._forget(self._entries.pop(key, None))
        if entry.bytes > self._max_bytes:
            entry.contents.clear()
        if entry.bytes > self._max_bytes:
            return
        self._entries[key] = entry  # at the end: the most recently used
        entry.counted = entry.bytes
        self._total += entry.counted
        while len(self._entries) > MAX_SESSIONS or self._total > self._max_bytes:
            self._forget(self._entries.popitem(last=False)[1])

    def _forget(self, entry: "_Entry | None") -> None:
        if entry is not None:
            self._total -= entry.counted
            entry.counted = 0


@dataclass
class _Entry:
    """A session's first events. Append-only, because several steps may use the entry at once.

    Copying it for each addition would make every step of a session more expensive than the last.
    """

    seen_by: str
    """The invocation that verified that the events belong to this session."""
    events: list[Event] = field(default_factory=list[Event])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    """Position of the first event of each invocation."""
    calls: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Positions of each invocation's calls by call id; the first event of an id counts."""
    creation: Creation | None = None
    """The session's creation; None: not read yet."""
    counted: int = 0
    """Bytes that the cache counts. A step that shares the entry may have made it larger since."""
    event_bytes: int = 0
    """Bytes of memory that the events take."""
    contents: KeptContents = field(default_factory=KeptContents)
    """What has been rendered of the events; copies of the entry share it."""

    @classmethod
    def of(cls, events: Iterable[Event], seen_by: str = "", *, sized: bool = True) -> "_Entry":
        entry = cls(seen_by)
        entry.extend(0, events, sized=sized)
        return entry

    @property
    def bytes(self) -> int:
        """Bytes of memory that the entry takes."""
        return self.event_bytes + self.contents.bytes

    @property
    def revision(self) -> int:
        """The number of events."""
        return len(self.events)

    def extend(self, after: int, events: Iterable[Event], *, sized: bool = True) -> None:
        """Append those events that the entry lacks.

        Args:
            after: The number of events of the session that precede `events`.
            events: The events.
            sized: Whether to count the memory that they take.
        """
        for position, event in enumerate(events, after):
            if position == len(self.events):
                self.starts.setdefault(event.invocation_id, position)
                for call in event.get_function_calls():
                    calls = self.calls.setdefault(event.invocation_id, {})
                    calls.setdefault(call.id or "", position)
                self.events.append(event)
                self.event_bytes += memory_of(event) if sized else 0

    def known(self, revision: int, invocation_id: str) -> KnownEvents:
        events = self.events[:revision]
        start = min(self.starts.get(invocation_id, len(events)), len(events))
        calls = self.calls.get(invocation_id, {})
        created = self.creation.epoch if self.creation else 0
        return KnownEvents(events, start, calls, len(events), self.contents, created)

    def copy(self) -> "_Entry":
        """Return an independent entry with the same events, without indexing them again."""
        calls = {name: dict(known) for name, known in self.calls.items()}
        events, starts = list(self.events), dict(self.starts)
        return replace(self, events=events, starts=starts, calls=calls, counted=0)


def _stored(key: SessionKey, event: Event) -> Event:
    """Return the event as stored; user code or the loop may change the object itself (TRAP-8)."""
    return stored_copy(event, keeps_bases=key.is_child)


def _events(stored: Iterable[StoredEvent]) -> Iterable[Event]:
    return (item.event for item in stored)


async def _verified(entry: _Entry, sessions: SessionLog, key: SessionKey, revision: int) -> _Entry:
    """Return the entry extended to `revision` events, or a new one if it is of another session.

    Args:
        entry: An entry that is not shared; it is extended.
        sessions: The store.
        key: The session's key.
        revision: The number of events wanted.
    """
    # Read before the events: if the session is created anew in between, the next check detects it.
    creation = await sessions.read_creation(key)
    if entry.creation != creation:
        entry = _Entry("", creation=creation)  # regardless of the events' ids and times
    known = len(entry.events)
    after = max(known - 1, 0)
    tail = await sessions.read_events(key, after=after, upto=max(revision, known))
    if known and not (tail and _is_same(tail[0].event, entry.events[-1])):
        # The store was restored from a backup and has been written to since.
        entry, after = _Entry("", creation=creation), 0
        tail = await sessions.read_events(key, upto=revision)
    entry.extend(after, _events(tail))
    return entry


def _is_same(event: Event, known: Event) -> bool:
    """Return whether both are the same event; after a restore another one may have the same id."""
    return (event.id, event.timestamp) == (known.id, known.timestamp)
