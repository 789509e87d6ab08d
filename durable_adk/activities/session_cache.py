"""Events of recently used sessions, as one worker keeps them."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from durable_adk.events.event import Event
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.session import Creation, SessionKey


class Known(NamedTuple):
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
    def of(cls, events: list[Event], invocation_id: str) -> "Known":
        """What a list of events holds, which is looked through."""
        return _Entry.of(events).known(len(events), invocation_id)

    def has_call(self, call_id: str) -> bool:
        """Whether one of the invocation's calls has this id."""
        return self.calls.get(call_id, self.revision) < self.revision


class SessionCache:
    """Events of recently used sessions, so that a step reads only the tail it lacks (D3).

    Committed events never change and are only ever appended, so an entry can be stale but not
    wrong, unless the session was deleted and created again. An invocation's first step here looks
    for that; within an invocation the step's epoch does.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._entries: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._lock = threading.Lock()  # steps and commits come from two event loops

    async def read(
        self, sessions: BaseSessionService, key: SessionKey, revision: int, invocation_id: str
    ) -> Known:
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
            self._extend(entry, known, (item.event for item in tail))
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
        if entry is not None and entry.seen_by == event.invocation_id:
            self._extend(entry, seq - 1, [event])

    def _copy(self, entry: "_Entry | None") -> "_Entry":
        with self._lock:  # a dict that grows meanwhile cannot be walked through
            return entry.copy() if entry else _Entry("")

    def _extend(self, entry: "_Entry", after: int, events: Iterable[Event]) -> None:
        with self._lock:
            entry.extend(after, events)

    def _keep(self, key: SessionKey, entry: "_Entry") -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)


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

    @classmethod
    def of(cls, events: Iterable[Event], seen_by: str = "") -> "_Entry":
        entry = cls(seen_by)
        entry.extend(0, events)
        return entry

    def extend(self, after: int, events: Iterable[Event]) -> None:
        """Add those of the events behind the first `after` that are not there yet."""
        for position, event in enumerate(events, after):
            if position == len(self.events):
                self.starts.setdefault(event.invocation_id, position)
                for call in event.get_function_calls():
                    calls = self.calls.setdefault(event.invocation_id, {})
                    calls.setdefault(call.id or "", position)
                self.events.append(event)

    def known(self, revision: int, invocation_id: str) -> Known:
        events = self.events[:revision]
        start = min(self.starts.get(invocation_id, len(events)), len(events))
        return Known(events, start, self.calls.get(invocation_id, {}), len(events))

    def copy(self) -> "_Entry":
        """One of its own with the same events, which is faster than to look through them."""
        calls = {name: dict(known) for name, known in self.calls.items()}
        return _Entry(self.seen_by, list(self.events), dict(self.starts), calls, self.creation)


async def _verified(
    entry: _Entry, sessions: BaseSessionService, key: SessionKey, revision: int
) -> _Entry:
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
    entry.extend(after, (item.event for item in tail))
    return entry


def _is_same(event: Event, known: Event) -> bool:
    """Whether it is the one event; after a restored backup another one may have its id."""
    return (event.id, event.timestamp) == (known.id, known.timestamp)
