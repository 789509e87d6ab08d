"""Caches the events of recently used sessions on one worker."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, NamedTuple

from pydantic import BaseModel

from durable_adk.events.event import Event
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import Limits

_LEAVES = frozenset((str, bytes, float))
_COLLECTIONS = frozenset((list, tuple, set, frozenset))
_SMALL_INTS = range(-5, 257)
"""Numbers that CPython makes once."""


def memory_of(event: Event) -> int:
    """Bytes of memory that an event takes.

    The length of its stored body says little: a character of text takes one byte of memory, and one
    of nested JSON up to 24. So the event is walked through, in a loop because it may be nested
    deeply. What all events share is not counted; a string that occurs twice is counted twice.
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
    """The events that a step may know of."""

    events: list[Event]
    """The caller's own list; the events are everybody's and are not to be changed (TRAP-8)."""
    start: int
    """Position of the first event of the step's invocation; behind the last, if there is none."""
    calls: Mapping[str, int]
    """Positions of the invocation's function calls, by their ids; also of later events."""
    revision: int
    """How many events these were: user code is given the list, and may change it (STA-17)."""

    @classmethod
    def of(cls, events: list[Event], invocation_id: str) -> "KnownEvents":
        """What a list of events holds, which is looked through."""
        return _Entry.of(events, sized=False).known(len(events), invocation_id)

    def has_call(self, call_id: str) -> bool:
        """Whether one of the invocation's calls has this id."""
        return self.calls.get(call_id, self.revision) < self.revision


class SessionCache:
    """Events of recently used sessions, so that a step reads only the tail it lacks (D3).

    Committed events never change and are only ever appended, so an entry can be stale but not
    wrong, unless the session was deleted and created again. An invocation's first step here looks
    for that; within an invocation the step's epoch does.

    Those that were used least recently make room for others. A session that takes more than
    `max_bytes` by itself is not kept: each of its steps reads it.

    Args:
        size: Sessions that are kept at most.
        max_bytes: Of memory that their events may take at most; see `memory_of`.
    """

    def __init__(self, size: int = 256, *, max_bytes: int = Limits().session_cache_bytes) -> None:
        self._size = size
        self._max_bytes = max_bytes
        self._entries: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._lock = threading.Lock()  # steps and commits come from two event loops

    @property
    def bytes(self) -> int:
        """Of memory that the kept events take."""
        with self._lock:
            return sum(entry.bytes for entry in self._entries.values())

    async def read(
        self, sessions: SessionLog, key: SessionKey, revision: int, invocation_id: str
    ) -> KnownEvents:
        """The session's first `revision` events.

        Args:
            sessions: Where those are that are not known here.
            key: The session.
            revision: How many.
            invocation_id: Who asks.
        """
        entry = self._entries.get(key)
        if entry is None or entry.seen_by != invocation_id:
            # A new one: an invocation that relies on the old one finds it as it was.
            entry = await _verified(self._copy(entry), sessions, key, revision)
            entry.seen_by = invocation_id
        elif (known := len(entry.events)) < revision:
            tail = await sessions.read_events(key, after=known, upto=revision)
            with self._lock:
                entry.extend(known, _events(tail))
        self._keep(key, entry)
        return entry.known(revision, invocation_id)

    def begin(self, key: SessionKey, event: Event) -> None:
        """Take over the first event of a new session, whatever was known under that name."""
        self._keep(key, _Entry.of([event], event.invocation_id))

    def add(self, key: SessionKey, seq: int, event: Event) -> None:
        """Take over an event that was just committed, if it is the next one.

        Not where its invocation has yet to make sure of those before it: it looks at the last.
        """
        entry = self._entries.get(key)
        if entry is None or entry.seen_by != event.invocation_id or entry.revision != seq - 1:
            return
        with self._lock:
            entry.extend(seq - 1, [event])
            if self._entries.get(key) is entry:  # else it has made room meanwhile
                self._put(key, entry)

    def _copy(self, entry: "_Entry | None") -> "_Entry":
        with self._lock:  # a dict that grows meanwhile cannot be walked through
            return entry.copy() if entry else _Entry("")

    def _keep(self, key: SessionKey, entry: "_Entry") -> None:
        with self._lock:
            self._put(key, entry)

    def _put(self, key: SessionKey, entry: "_Entry") -> None:
        self._entries.pop(key, None)
        if entry.bytes > self._max_bytes:
            return
        self._entries[key] = entry  # the last one: the most recently used
        # Added up and not counted along: steps that share an entry make it grow.
        total = sum(one.bytes for one in self._entries.values())
        while len(self._entries) > self._size or total > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            total -= oldest.bytes


@dataclass
class _Entry:
    """A session's first events. Only ever added to: several steps may be using it.

    A copy for each addition would make every step of a long session dearer than the one before.
    """

    seen_by: str
    """The invocation that made sure the events are this session's."""
    events: list[Event] = field(default_factory=list[Event])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    """Position of the first event of each invocation."""
    calls: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """By invocation: position of the event of each of its calls, the first one's of an id."""
    creation: Creation | None = None
    """Of the session; None: it is yet to be asked for."""
    bytes: int = 0
    """Of memory that the events take."""

    @classmethod
    def of(cls, events: Iterable[Event], seen_by: str = "", *, sized: bool = True) -> "_Entry":
        entry = cls(seen_by)
        entry.extend(0, events, sized=sized)
        return entry

    @property
    def revision(self) -> int:
        """How many events there are."""
        return len(self.events)

    def extend(self, after: int, events: Iterable[Event], *, sized: bool = True) -> None:
        """Add those of the events behind the first `after` that are not there yet.

        Args:
            after: How many events come before these.
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
                self.bytes += memory_of(event) if sized else 0

    def known(self, revision: int, invocation_id: str) -> KnownEvents:
        events = self.events[:revision]
        start = min(self.starts.get(invocation_id, len(events)), len(events))
        return KnownEvents(events, start, self.calls.get(invocation_id, {}), len(events))

    def copy(self) -> "_Entry":
        """One of its own with the same events, which is faster than to look through them."""
        calls = {name: dict(known) for name, known in self.calls.items()}
        events, starts = list(self.events), dict(self.starts)
        return _Entry(self.seen_by, events, starts, calls, self.creation, self.bytes)


def _events(stored: Iterable[StoredEvent]) -> Iterable[Event]:
    return (item.event for item in stored)


async def _verified(entry: _Entry, sessions: SessionLog, key: SessionKey, revision: int) -> _Entry:
    """The entry with as many events as `revision`, or another one if these are not the session's.

    Args:
        entry: Nobody else's; it is added to.
        sessions: Where the events are.
        key: The session.
        revision: How many events are wanted.
    """
    # Before the events: should the session be created again meanwhile, the next look shows it.
    creation = await sessions.read_creation(key)
    if entry.creation != creation:
        entry = _Entry("", creation=creation)  # whatever the events' ids and times say
    known = len(entry.events)
    after = max(known - 1, 0)
    tail = await sessions.read_events(key, after=after, upto=max(revision, known))
    if known and not (tail and _is_same(tail[0].event, entry.events[-1])):
        # The store was put back to an older one, and has gone on since.
        entry, after = _Entry("", creation=creation), 0
        tail = await sessions.read_events(key, upto=revision)
    entry.extend(after, _events(tail))
    return entry


def _is_same(event: Event, known: Event) -> bool:
    """Whether it is the one event; after a restored backup another one may have its id."""
    return (event.id, event.timestamp) == (known.id, known.timestamp)
