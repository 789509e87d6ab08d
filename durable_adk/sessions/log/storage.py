"""The port between the rules of the session store and a store's tables."""

from collections.abc import Callable, Collection
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
    """Which events to read: those of a range and a time, of them the first or last few."""

    after: int = 0
    upto: int | None = None
    since: float | None = None
    """Timestamp of the earliest one, inclusive (TRAP-15)."""
    first: int | None = None
    last: int | None = None


class Position(NamedTuple):
    """A session's place in a listing; update times come first, and ids where they are equal."""

    update_time: float
    user_id: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which sessions of a listing to read."""

    limit: int
    after: Position | None = None
    since: float | None = None
    """The earliest update, inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationPage:
    """Which invocations to read; see `InvocationRecords.page_invocations`."""

    app_name: str
    user_id: str | None = None
    session_id: str | None = None
    status: Status | None = None
    limit: int
    after: tuple[SessionKey, InvocationRecord] | None = None


class NoteKey(NamedTuple):
    """What names a note of a session."""

    invocation_id: str
    kind: str
    name: str


class Tables(Protocol):
    """The tables of a store within one transaction.

    State is kept by its owner (see `owner`), each value as JSON text.
    """

    def head(self, key: SessionKey) -> Head | None:
        """The session's row, locked until the end of a writing transaction; None if missing."""
        ...

    def apps(self) -> list[str]:
        """The apps that have sessions, by name."""
        ...

    def heads(
        self, app_name: str, user_id: str | None, page: Page
    ) -> list[tuple[SessionKey, Head]]:
        """The sessions of an app, or of one of its users, by `Position`; children excluded."""
        ...

    def sessions_of(self, user: SessionKey) -> list[SessionKey]:
        """All sessions of a user, who is a session without an id; children included."""
        ...

    def add_session(self, key: SessionKey, head: Head) -> bool:
        """Add a session; False when it exists."""
        ...

    def save_head(self, key: SessionKey, head: Head) -> None:
        """Replace the session's row."""
        ...

    def remove_session(self, key: SessionKey) -> None:
        """Remove a session with all that is kept for it, except its app's and user's state.

        A tombstone keeps its last epoch, for the next session of its name.
        """
        ...

    def tombstone(self, key: SessionKey) -> Creation | None:
        """The epoch and time from which on there may be another session of a deleted one's name."""
        ...

    def remove_tombstone(self, key: SessionKey) -> None:
        """Remove a session's tombstone; another one of its name is there."""
        ...

    def remove_tombstones(self, user: SessionKey) -> None:
        """Remove those of all sessions of a user, who is a session without an id."""
        ...

    def add_event(self, key: SessionKey, seq: int, entry: Entry) -> bool:
        """Add an event; False, and nothing added, when its id is taken in the session."""
        ...

    def find_event(self, key: SessionKey, event_id: str) -> Row | None:
        """The event of this id."""
        ...

    def events(self, key: SessionKey, window: Window) -> list[Row]:
        """The events of the window, by sequence number."""
        ...

    def put_state(self, key: SessionKey, delta: dict[str, str], *, initial: bool = False) -> None:
        """Set the delta's keys, each at its owner; other keys are not touched (SSN-14).

        With `initial` it is what the session is created with, which is kept for its own keys.
        """
        ...

    def initial_state(self, key: SessionKey) -> dict[str, str]:
        """The session's own keys as it was created with them."""
        ...

    def state(self, key: SessionKey) -> dict[str, str]:
        """All that the session sees: its own keys, its user's and its app's."""
        ...

    def states(self, owners: Collection[SessionKey]) -> dict[SessionKey, dict[str, str]]:
        """By owner, all state that these have."""
        ...

    def invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """An independent copy of the invocation's row."""
        ...

    def invocations(
        self, app_name: str, user_id: str | None, status: Status, limit: int
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Copies of the rows with this status of an app or user, the newest by `update_time`."""
        ...

    def page_of_invocations(
        self, page: InvocationPage
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Copies of the rows of a page."""
        ...

    def put_invocation(self, key: SessionKey, record: InvocationRecord) -> None:
        """Add the invocation's row or replace it."""
        ...

    def put_note(self, key: SessionKey, note: NoteKey, body: str, *, replace: bool) -> str:
        """Add a note, or replace it if so wished; returns the body that is there now."""
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
        """The notes of a kind whose names come after one, by name."""
        ...

    def find_note(self, key: SessionKey, note: NoteKey) -> Note | None:
        """The note of this name."""
        ...

    def remove_notes(self, key: SessionKey, invocation_id: str) -> None:
        """Remove an invocation's notes, except those of kind `ATTEMPT`."""
        ...

    def remove_withdrawn(self, key: SessionKey, before: str) -> None:
        """Remove the session's notes of kind `WITHDRAWN` whose bodies sort before this one."""
        ...

    def tickets(
        self, key: SessionKey, *, live_at: float | None = None, limit: int | None = None
    ) -> list[Ticket]:
        """Copies of the session's tickets, in the order in which their turns come.

        With `live_at` only those that have not expired then; with `limit` the first of them.
        """
        ...

    def ticket(self, key: SessionKey, invocation_id: str) -> Ticket | None:
        """A copy of an invocation's ticket."""
        ...

    def tickets_before(self, key: SessionKey, ticket: Ticket, live_at: float) -> int:
        """How many tickets of the session come before one, those that have expired left out."""
        ...

    def tickets_of_user(self, key: SessionKey, live_at: float) -> int:
        """How many tickets the session's user has in all sessions of the app."""
        ...

    def ticket_count(self, key: SessionKey) -> tuple[int, int]:
        """How many tickets the session has, expired ones included, and their highest number."""
        ...

    def put_ticket(self, key: SessionKey, ticket: Ticket, message: str | None) -> None:
        """Add a ticket, or replace its invocation's; with the message that may be heard, if any."""
        ...

    def message(self, key: SessionKey, invocation_id: str) -> str | None:
        """The message with an invocation's ticket."""
        ...

    def remove_ticket(self, key: SessionKey, invocation_id: str, expired_at: float) -> None:
        """Remove an invocation's ticket, if there is one, and those that have expired then."""
        ...


class Store(Protocol):
    """Where the tables are.

    What is done in a transaction is a plain function: it runs as a whole wherever the store wants
    it, under a lock, in a thread or beside a driver's own waiting, and never meets an event loop.
    """

    async def read(self, work: Callable[[Tables], T]) -> T:
        """What `work` returns for the tables at one point in time."""
        ...

    async def write(self, work: Callable[[Tables], T]) -> T:
        """What `work` returns; its changes happen as a whole, or not at all if it raises."""
        ...


def owner(key: SessionKey, name: str) -> SessionKey:
    """Who owns a state key of a session: the session, or by its prefix the user or app (STA-3).

    Ids are never empty, so a user is (app, user, "") and an app is (app, "", "").
    """
    if name.startswith(APP_PREFIX):
        return SessionKey(key.app_name, "", "")
    if name.startswith(USER_PREFIX):
        return SessionKey(key.app_name, key.user_id, "")
    return key


def owners(key: SessionKey) -> tuple[SessionKey, SessionKey, SessionKey]:
    """All whose state a session sees."""
    return SessionKey(key.app_name, "", ""), SessionKey(key.app_name, key.user_id, ""), key
