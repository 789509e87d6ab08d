"""Port between the rules of the session log and a store's tables."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.records import InvocationRecord, Note, Status, Ticket
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.state import APP_PREFIX, USER_PREFIX

T = TypeVar("T")


class Row(NamedTuple):
    """A stored event."""

    seq: int
    digest: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Selects events by sequence number and time, optionally only the first or last of them."""

    after: int = 0
    upto: int | None = None
    since: float | None = None
    """Earliest timestamp, inclusive (TRAP-15)."""
    first: int | None = None
    size: int | None = None
    """Maximum characters of bodies, but at least the first event is selected; not with `last`."""
    last: int | None = None

    def fitting(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the first rows, in order, up to `size`."""
        read = 0
        for row in rows:
            yield row
            read += len(row.body)
            if self.size is not None and read >= self.size:
                return


class Position(NamedTuple):
    """A session's position in a listing: ordered by update time, then by ids."""

    update_time: float
    user_id: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Selects one page of a listing of sessions."""

    limit: int
    after: Position | None = None
    since: float | None = None
    """Earliest update time, inclusive."""
    newest_first: bool = False


class InvocationPosition(NamedTuple):
    """A position among the invocations of an app, by the time of their status."""

    update_time: float
    user_id: str
    session_id: str
    invocation_id: str

    @classmethod
    def of(cls, key: SessionKey, record: InvocationRecord) -> "InvocationPosition":
        """Return the position of an invocation."""
        return cls(record.update_time, key.user_id, key.session_id, record.invocation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationsByTime:
    """Selects invocations by the time of their status; see `invocations_by_time`."""

    app_name: str
    user_id: str | None = None
    session_id: str | None = None
    statuses: Collection[Status] = ()
    """Empty: all."""
    limit: int
    beyond: InvocationPosition | None = None
    """The last one of the previous page."""
    oldest_first: bool = False


class NoteKey(NamedTuple):
    """Identifies a note within a session."""

    invocation_id: str
    kind: str
    name: str


class Tables(Protocol):
    """The tables of a store within one transaction.

    State is stored by owner (see `owner`), each value as JSON text.
    """

    def head(self, key: SessionKey) -> Head | None:
        """Read the session's row; None if missing. A writing transaction locks it until its end."""
        ...

    def apps(self) -> list[str]:
        """List the apps that have sessions, sorted by name."""
        ...

    def heads(
        self, app_name: str, user_id: str | None, page: Page
    ) -> list[tuple[SessionKey, Head]]:
        """List the sessions of an app or of one user, by `Position`; child sessions excluded."""
        ...

    def sessions_of(self, user: SessionKey, prefix: str = "") -> list[SessionKey]:
        """List the sessions of a user whose ids begin with `prefix`, including child sessions.

        The session id of `user` is ignored.
        """
        ...

    def add_session(self, key: SessionKey, head: Head) -> bool:
        """Add a session; return False if it exists."""
        ...

    def save_head(self, key: SessionKey, head: Head) -> None:
        """Replace the session's row."""
        ...

    def remove_session(self, key: SessionKey) -> None:
        """Remove a session and all its data, except app and user state."""
        ...

    def add_tombstone(self, key: SessionKey, creation: Creation) -> None:
        """Store the value for `tombstone`, replacing an earlier one."""
        ...

    def tombstone(self, key: SessionKey) -> Creation | None:
        """Read the earliest epoch and time for a new session with a deleted session's name."""
        ...

    def remove_tombstone(self, key: SessionKey) -> None:
        """Remove a session's tombstone after a session of the same name was created."""
        ...

    def remove_tombstones(self, user: SessionKey) -> None:
        """Remove the tombstones of all sessions of a user; `user` has no session id."""
        ...

    def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        """Add an event; return False without adding it if its id is taken in the session."""
        ...

    def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        """Read the event with this id."""
        ...

    def events(self, key: SessionKey, window: Window) -> list[Row]:
        """Read the events of the window, by sequence number."""
        ...

    def put_state(self, key: SessionKey, delta: dict[str, str], *, initial: bool = False) -> None:
        """Set the delta's keys, each at its owner; other keys are not touched (SSN-14).

        With `initial`, the values of the session's own keys are also stored as its initial state.
        """
        ...

    def locked_state(self, key: SessionKey, names: Collection[str]) -> dict[str, str]:
        """Read the values of keys, and lock them against other transactions until this one ends.

        Covers all keys that the transaction will set: a missing one may be stored as "" until then.
        """
        ...

    def initial_state(self, key: SessionKey) -> dict[str, str]:
        """Read the initial values of the session's own keys."""
        ...

    def state(self, key: SessionKey) -> dict[str, str]:
        """Read the session's merged state: its own keys, its user's and its app's."""
        ...

    def states(self, owners: Collection[SessionKey]) -> dict[SessionKey, dict[str, str]]:
        """Read the state of several owners, keyed by owner."""
        ...

    def invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """Read an independent copy of the invocation's row."""
        ...

    def invocations_by_time(
        self, wanted: InvocationsByTime
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Read the most or least recently updated invocations."""
        ...

    def count_invocations(self, app_name: str, user_id: str | None) -> dict[Status, int]:
        """Count the invocations of an app or of one of its users by status, without children's."""
        ...

    def sessions_with(self, invocation_id: str) -> list[SessionKey]:
        """Return the sessions that have an invocation of this id, or a ticket of it."""
        ...

    def count_events(self, key: SessionKey, record: InvocationRecord) -> int:
        """Count the events of an invocation."""
        ...

    def put_invocation(self, key: SessionKey, record: InvocationRecord) -> None:
        """Add or replace the invocation's row."""
        ...

    def put_note(self, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
        """Add a note, or replace it with `replace`; return the body now stored."""
        ...

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
        ...

    def find_note(self, key: SessionKey, note: NoteKey) -> Note | None:
        """Read the note with this key."""
        ...

    def remove_note(self, key: SessionKey, note: NoteKey) -> None:
        """Remove a note, if there is one."""
        ...

    def remove_notes(self, key: SessionKey, invocation_id: str) -> None:
        """Remove an invocation's notes, except those of the kinds `KEPT`."""
        ...

    def remove_withdrawn(self, key: SessionKey, before: str) -> None:
        """Remove the session's notes of kind `WITHDRAWN` whose bodies sort before this one."""
        ...

    def tickets(
        self, key: SessionKey, *, live_at: float | None = None, limit: int | None = None
    ) -> list[Ticket]:
        """Read copies of the session's tickets, in the order of their turns.

        With `live_at`, only tickets that are unexpired at that time; with `limit`, only the first
        ones.
        """
        ...

    def ticket(self, key: SessionKey, invocation_id: str) -> Ticket | None:
        """Read a copy of an invocation's ticket."""
        ...

    def tickets_before(self, key: SessionKey, ticket: Ticket, live_at: float) -> int:
        """Count the session's unexpired tickets before this one."""
        ...

    def size_of_user(self, user: SessionKey) -> int:
        """Return the total size of a user's sessions, and of the state that they share."""
        ...

    def tickets_of_user(self, key: SessionKey, live_at: float) -> int:
        """Count the unexpired tickets of the session's user in all sessions of the app."""
        ...

    def ticket_count(self, key: SessionKey) -> tuple[int, int]:
        """Count the session's tickets, expired ones included; also return the highest number."""
        ...

    def put_ticket(self, key: SessionKey, ticket: Ticket, message: str | None) -> None:
        """Add or replace an invocation's ticket, with its steering message, if any."""
        ...

    def message(self, key: SessionKey, invocation_id: str) -> str | None:
        """Read the message stored with an invocation's ticket."""
        ...

    def remove_ticket(self, key: SessionKey, invocation_id: str, expired_at: float) -> None:
        """Remove an invocation's ticket, if there is one, and all tickets expired at that time."""
        ...


class Store(Protocol):
    """Runs transactions over the tables.

    A transaction is a plain synchronous function. The store runs it as a whole, under a lock, in a
    thread or in a greenlet of an asyncio driver, and it never uses an event loop.
    """

    async def read(self, work: Callable[[Tables], T]) -> T:
        """Run `work` on a consistent snapshot of the tables and return its result."""
        ...

    async def write(self, work: Callable[[Tables], T]) -> T:
        """Run `work` and return its result; its changes are rolled back if it raises."""
        ...


def owner(key: SessionKey, name: str) -> SessionKey:
    """Return the owner of a state key: by its prefix the app, the user or the session (STA-3).

    Ids are never empty, so a user is (app, user, "") and an app is (app, "", "").
    """
    if name.startswith(APP_PREFIX):
        return SessionKey(key.app_name, "", "")
    if name.startswith(USER_PREFIX):
        return SessionKey(key.app_name, key.user_id, "")
    return key


def owners(key: SessionKey) -> tuple[SessionKey, SessionKey, SessionKey]:
    """Return the owners whose state a session sees: app, user and session."""
    return SessionKey(key.app_name, "", ""), SessionKey(key.app_name, key.user_id, ""), key
