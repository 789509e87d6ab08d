"""Records that the session store returns."""

from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import Session

ATTEMPT: Final = "attempt"
"""Kind of notes that record attempts at model and tool calls."""
PUSH: Final = "push"
"""Kind of notes with a push configuration; the name is a `PushConfig`'s id."""
UNFINISHED: Final = "unfinished"
"""Kind of the note with an invocation's `UnfinishedBranch`es, if it has any."""
KEPT = frozenset({ATTEMPT, PUSH, UNFINISHED})
"""Kinds of notes that are kept when their invocation is closed; others are deleted (I24)."""
DELIVERED: Final = "delivered"
"""Kind of notes that record steering messages; the name is the message's own invocation id."""
RESERVED: Final = "reserved"
"""Kind of notes that reserve an event for the loop; the name is the event's id."""
SESSION_SIZE: Final = 1_000
"""Characters that each session counts in addition to its events."""
WITHDRAWN: Final = "withdrawn"
"""Kind of notes that record a withdrawn opening; the name is the lease owner that must not open."""


class GetSessionConfig(JsonModel):
    """Selects events of a session: those at or after a time, then the last N of them (SSN-6)."""

    num_recent_events: int | None = Field(default=None, ge=0)
    after_timestamp: float | None = None


class ListSessionsResponse(JsonModel):
    """Sessions without their events."""

    sessions: list[Session] = Field(default_factory=list[Session])
    next_page_token: str | None = None
    """Token for the next page; None on the last page."""


class StoredEvent(JsonModel):
    """An event with its sequence number in the session."""

    seq: int
    event: Event


class ServedApp(JsonModel):
    """An app that a worker serves, as announced by the worker."""

    name: str
    root_agent_name: str
    description: str = ""
    """The root agent's description."""
    namespace: str
    task_queue: str
    update_time: float
    """Time of the last announcement, in seconds since the epoch."""


class Status(StrEnum):
    """State of an invocation."""

    RUNNING = "running"
    PAUSED = "paused"
    """Waits for an answer and holds no lease; `resume_invocation` continues it (D9)."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    """Its workflow or process died without closing it, and its lease was taken over."""

    @property
    def closed(self) -> bool:
        """Whether the invocation is closed."""
        return self not in OPEN


OPEN = frozenset({Status.RUNNING, Status.PAUSED})
"""The statuses of invocations that are not closed."""


class InvocationRecord(JsonModel):
    """The store's record of an invocation."""

    invocation_id: str
    status: Status
    epoch: int
    """Fencing number: each time an invocation of the session takes the lease, it gets the next."""
    lease_owner: str
    """The workflow or process that runs it; see `durable_adk.sessions.lease_owner`."""
    start_seq: int
    """Sequence number of its user event."""
    end_seq: int | None = None
    """Sequence number of the session's last event when the invocation was closed; None also while
    its closing events are missing, see `sealed`."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of the error it failed with."""
    pauses: int = 0
    """Number of times it has been paused."""
    update_time: float = 0.0
    """Time of the last status change, in seconds since the epoch by the clock of the process that
    set it."""

    @property
    def sealed(self) -> bool:
        """Whether the invocation is closed and all its closing events are stored.

        If a paused invocation is closed while another holds the lease, its closing events, the
        responses to its pending calls, are stored once the session is free.
        """
        return self.status.closed and self.end_seq is not None


class Note(JsonModel):
    """A value that an invocation stored for itself."""

    name: str
    body: str
    """JSON text, stored unchanged."""


class QueueBounds(NamedTuple):
    """Limits on the number of queued messages."""

    session: int
    """Limit for one session."""
    user: int
    """Limit for all sessions of one user of an app."""


class QueuePosition(IntEnum):
    """Place at which an invocation joins the queue of a busy session."""

    FIRST = 0
    """Before all tickets at LAST."""
    LAST = 1


class Ticket(JsonModel):
    """An invocation's entry in the queue of its session; ordered by place, then number."""

    invocation_id: str
    lease_owner: str
    """The waiting workflow or process; see `lease_owner`. The next in the queue drops the ticket of
    a dead owner."""
    position: QueuePosition
    number: int
    """Increases with every ticket while the queue is not empty. A ticket for closing events gets a
    number before all others."""
    ttl: float | None = None
    """Seconds without a retry after which the ticket expires; None: never."""
    expires_at: float | None = None
    """Expiry in seconds since the epoch, by the clock of the process that renewed it."""
    since: float | None = None
    """Time the ticket was taken, in seconds since the epoch by the clock of its owner."""
    ahead: int | None = None
    """Number of tickets ahead of it when it was taken."""
