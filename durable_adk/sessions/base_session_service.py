"""The port to the session store: ADK's calls, and the log that makes a run durable.

Contract of every implementation, tested by one suite (`tests/unit/sessions/test_contract*.py`):

* One transaction per write: event, state, revision and lease change together or not at all.
* Every write may be repeated after a lost acknowledgement: the event id is looked at first, then
  the lease, so a repeat finds its own first attempt (TRAP-11, TRAP-12).
* Order is the sequence number, 1, 2, 3 ... without gaps; never a timestamp (TRAP-15).
* What is returned is a copy: nobody reads another's uncommitted changes (TRAP-8).
* A store that does not answer raises StoreUnavailableError; the outcome is then unknown and the
  caller repeats the call with the same ids.
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from durable_adk.events.event import Event
from durable_adk.models.llm_response import Wire
from durable_adk.sessions.session import Session, SessionKey


class GetSessionConfig(BaseModel):
    """Which events to load: first those at or after a time, of them the last N (SSN-6)."""

    num_recent_events: int | None = Field(default=None, ge=0)
    after_timestamp: float | None = None


class ListSessionsResponse(Wire):
    """Sessions without their events."""

    sessions: list[Session] = Field(default_factory=list[Session])


class StoredEvent(Wire):
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


class InvocationRecord(Wire):
    """What the store knows of an invocation."""

    invocation_id: str
    status: Status
    epoch: int
    """The fence: whenever an invocation of the session takes the lease it gets the next number."""
    holder: str
    """Who runs it; see `durable_adk.holders`."""
    start_seq: int
    """Sequence number of its user event."""
    end_seq: int | None = None
    """Sequence number of the session's last event when the invocation was closed."""
    error: dict[str, Any] | None = None
    """`errors.as_detail` of the error it failed with."""
    pauses: int = 0
    """How often it has been paused."""
    update_time: float = 0.0
    """When its status was last set: seconds since the epoch, by the clock of who set it; 0 if that
    was done by a version that did not note it."""


class BaseSessionService(ABC):
    """Stores sessions. All calls raise StoreUnavailableError while the store does not answer."""

    # ----- ADK's calls (semantics 5)

    @abstractmethod
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; without an id it gets a new uuid (SSN-2, SSN-4).

        `state` is split by prefix; `temp:` keys are dropped.

        Raises:
            AlreadyExistsError: The id is taken (SSN-3).
            InvalidRequestError: An id is unusable.
            StateValueError: The state is not JSON.
        """

    @abstractmethod
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """An independent copy, always with the full state; None if missing (SSN-5, SSN-7)."""

    @abstractmethod
    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Sessions with merged state, without events, oldest update first (SSN-8).

        Those of agents used as tools (`session.CHILD_PREFIX`) are left out.
        """

    @abstractmethod
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """A copy of the user's state, keys without `user:`; {} if there is none (SSN-13).

        Raises:
            InvalidRequestError: An id is unusable.
        """

    @abstractmethod
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session and its events; app and user state stay; missing is no error (SSN-9)."""

    @abstractmethod
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event from outside any invocation; updates the passed session (SSN-10).

        A partial event changes nothing. An event without id gets a new uuid, without timestamp the
        current time. `temp:` keys go to `session.state` only. The returned event is the stored one.

        Raises:
            StaleSessionError: Events were stored after `session.revision` (SSN-30).
            SessionNotFoundError: The session is not in storage (SSN-11).
            EventConflictError: The id is taken by a different event (SSN-12).
        """

    async def flush(self) -> None:  # noqa: B027  # optional
        """Nothing is buffered here: every call has stored what it was given."""

    async def close(self) -> None:  # noqa: B027  # optional
        """Let go of connections and files."""

    # ----- the durable log (design D4, D7, D8)

    @abstractmethod
    async def open_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        holder: str,
        user_event: Event,
        create_session: bool = False,
        ttl: float | None = None,
    ) -> InvocationRecord:
        """Take the session's lease and append the user's event, in one transaction (D7).

        Repeating the call with the same invocation id returns the record as it is now, running,
        paused or closed, and changes nothing.

        Args:
            key: The session.
            invocation_id: The invocation; its user event carries the same.
            holder: Who will run it.
            user_event: With id and timestamp; its state delta is applied.
            create_session: Create a missing session instead of refusing.
            ttl: Seconds without a commit or `renew` after which others may take the lease over;
                None for a holder whose end can be looked up, i.e. a workflow.

        Raises:
            SessionBusyError: Another invocation holds the lease. `active_invocation` tells which.
            SessionNotFoundError: The session is missing and not to be created.
            EventConflictError: The invocation id is taken by a request with another message, or the
                event's id by another invocation.
            InvalidRequestError: An id is unusable, or the event is of another invocation.
            StateValueError: The delta is not JSON.
        """

    @abstractmethod
    async def commit_event(
        self,
        key: SessionKey,
        event: Event,
        *,
        invocation_id: str,
        epoch: int,
        closing: Status | None = None,
    ) -> int:
        """Append an event under the lease, in one transaction; returns its sequence number (D4).

        With `closing` the same transaction closes the invocation, as `close_invocation` does.

        `temp:` keys of the delta are not stored. A repeat (same id, same content; the timestamp is
        not compared) returns the first call's number and changes nothing, even after the lease has
        gone to someone else.

        Raises:
            EventConflictError: The id is taken by a different event.
            LeaseLostError: `invocation_id` at `epoch` does not hold the session's lease (I6), also
                because the session was deleted.
            InvalidRequestError: The event is partial, has no id, or is of another invocation.
            StateValueError: The event is not JSON.
        """

    @abstractmethod
    async def pause_invocation(
        self, key: SessionKey, *, invocation_id: str, epoch: int
    ) -> InvocationRecord:
        """Let a running invocation wait without its lease, so that others may run meanwhile (D9).

        A repeat at the same epoch returns the record and changes nothing.

        Raises:
            LeaseLostError: `invocation_id` at `epoch` holds no lease to give back: it was closed,
                resumed or taken over, or the session was deleted.
        """

    @abstractmethod
    async def resume_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        holder: str,
        user_event: Event | None,
        ttl: float | None = None,
    ) -> InvocationRecord:
        """Take the lease for a paused invocation and append the answer, in one transaction (D9).

        It runs again under a new epoch. A repeat (same event id, same content) returns the record
        as it is now, whatever became of it, and changes nothing; without an event that is so for
        the same holder while the invocation runs.

        Args:
            key: The session.
            invocation_id: The paused invocation; its answer carries the same (OPEN-3).
            holder: Who will run it from now on.
            user_event: The answer, with id and timestamp; its state delta is applied. None takes
                only the lease, which is needed to end a paused invocation with events.
            ttl: As for `open_invocation`.

        Raises:
            SessionBusyError: Another invocation holds the lease. `active_invocation` tells which.
            InvocationNotFoundError: The session or the invocation is missing.
            EventConflictError: The event's id is taken by another event.
            InvalidRequestError: The invocation is running or closed, or the event is of another.
            StateValueError: The delta is not JSON.
        """

    @abstractmethod
    async def renew(self, key: SessionKey, *, invocation_id: str, epoch: int) -> None:
        """Start the lease's `ttl` anew; nothing happens when the lease is not held."""

    @abstractmethod
    async def close_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        status: Status,
        error: dict[str, Any] | None = None,
    ) -> InvocationRecord:
        """End an invocation and give its lease back; a repeat changes nothing.

        As ABANDONED it is ended by whoever takes the session over from a holder that is gone; the
        holder itself, should it come back, can then neither write nor close. A paused invocation,
        which holds no lease, can only be ended so, by whoever knows its epoch.

        Raises:
            LeaseLostError: Another invocation took the session over, the invocation is paused, or
                the session was deleted.
            InvalidRequestError: The status is no ending.
        """

    @abstractmethod
    async def get_invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """What is known of an invocation; None if it was never opened."""

    @abstractmethod
    async def active_invocation(self, key: SessionKey) -> InvocationRecord | None:
        """The invocation that holds the session's lease, expired leases excluded."""

    @abstractmethod
    async def list_invocations(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        status: Status | None = None,
        limit: int = 100,
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """At most `limit` invocations of an app or one of its users, newest `update_time` first.

        Raises:
            InvalidRequestError: An id is unusable, or the limit is negative.
        """

    @abstractmethod
    async def read_events(
        self, key: SessionKey, *, after: int = 0, upto: int | None = None, limit: int | None = None
    ) -> list[StoredEvent]:
        """Events with `after` < seq <= `upto`, in order; [] also for a missing session."""

    @abstractmethod
    async def read_state(self, key: SessionKey) -> tuple[int, dict[str, Any]]:
        """The session's revision and merged state, read at one point in time.

        Raises:
            SessionNotFoundError: There is no such session.
        """

    @abstractmethod
    async def read_initial_state(self, key: SessionKey) -> dict[str, Any]:
        """The session's own keys as `create_session` was given them, which no event tells.

        {} also for a missing session, and for one that was created by a version before this call.
        """

    @abstractmethod
    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # the wait is the port's own, not the caller's
        """Return as soon as there may be events beyond `after` or a paused or closed invocation.

        Only a hint (it may return early and for nothing); at the latest after `timeout` seconds.
        """
