"""What the session store tells of its sessions."""

from enum import IntEnum, StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_model import JsonModel
from durable_adk.sessions.lease_owner import NAMED_HOLDER
from durable_adk.sessions.session import Session

ATTEMPT: Final = "attempt"
"""The kind of notes that stay when their invocation ends; those of other kinds go (I24)."""
HEARD: Final = "heard"
"""The kind of notes that say which messages an invocation has heard: by their invocations' ids."""
RESERVED: Final = "reserved"
"""The kind of notes that say which events only the loop commits: by their ids."""
WITHDRAWN: Final = "withdrawn"
"""The kind of notes that say by whom an invocation will not be opened any more: by their names."""


class GetSessionConfig(JsonModel):
    """Limits the events of a session: those at or after a time, then the last N of them (SSN-6)."""

    num_recent_events: int | None = Field(default=None, ge=0)
    after_timestamp: float | None = None


class ListSessionsResponse(JsonModel):
    """Sessions without their events."""

    sessions: list[Session] = Field(default_factory=list[Session])
    next_page_token: str | None = None
    """For the next page; None: this is the last."""


class StoredEvent(JsonModel):
    """An event with its place in the session."""

    seq: int
    event: Event


class Status(StrEnum):
    """How far an invocation is."""

    RUNNING = "running"
    PAUSED = "paused"
    """It waits for an answer and holds no lease; `resume_invocation` lets it go on (D9)."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    """Its workflow was closed from outside; the next invocation of the session took over."""

    @property
    def closed(self) -> bool:
        """Whether the invocation has ended."""
        return self not in (Status.RUNNING, Status.PAUSED)


class InvocationRecord(JsonModel):
    """What the store knows of an invocation."""

    invocation_id: str
    status: Status
    epoch: int
    """The fence: whenever an invocation of the session takes the lease it gets the next number."""
    lease_owner: Annotated[str, NAMED_HOLDER]
    """Who runs it; see `durable_adk.sessions.lease_owner`."""
    start_seq: int
    """Sequence number of its user event."""
    end_seq: int | None = None
    """Sequence number of the session's last event when the invocation was closed; None also while
    events that end it are still missing, see `sealed`."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of the error it failed with."""
    pauses: int = 0
    """How often it has been paused."""
    update_time: float = 0.0
    """When its status was last set: seconds since the epoch, by the clock of who set it; 0 if that
    was done by a version that did not note it."""

    @property
    def sealed(self) -> bool:
        """Whether it has ended with all its events.

        One that is closed while it is paused, and another holds the lease, gets those that answer
        its open calls when the session is free.
        """
        return self.status.closed and self.end_seq is not None


class Note(JsonModel):
    """What an invocation has written down for itself."""

    name: str
    body: str
    """JSON text, as it was given."""


class QueueBounds(NamedTuple):
    """How many messages may wait at a time."""

    session: int
    """For one session."""
    user: int
    """For all sessions of one user of an app."""


class Place(IntEnum):
    """Where an invocation that finds its session busy begins to wait."""

    FIRST = 0
    """Before all that wait at LAST."""
    LAST = 1


class Ticket(JsonModel):
    """That an invocation waits for its session; their order is place, then number."""

    invocation_id: str
    lease_owner: Annotated[str, NAMED_HOLDER]
    """Who waits; see `lease_owner`. The next in the queue drops a ticket whose owner is gone."""
    place: Place
    number: int
    """Grows with every ticket while there are any, but for those of seals: they come first."""
    ttl: float | None = None
    """Seconds without another attempt after which it counts no more; None: for ever."""
    expires_at: float | None = None
    """Seconds since the epoch, by the clock of who renewed it."""
    since: float | None = None
    """Seconds since the epoch when it was taken, by the clock of who took it."""
    ahead: int | None = None
    """How many tickets came before it then."""
