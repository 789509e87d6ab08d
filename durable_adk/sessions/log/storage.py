"""What the rules of the session log read and write in a store's tables."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
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
