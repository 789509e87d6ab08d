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

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from durable_adk.events.event import Event
from durable_adk.sessions.invocation_records import InvocationRecords
from durable_adk.sessions.notebook import Notebook
from durable_adk.sessions.people import People
from durable_adk.sessions.queue import SessionQueue
from durable_adk.sessions.rebuilt import Rebuilt
from durable_adk.sessions.records import (
    GetSessionConfig,
    InvocationRecord,
    ListSessionsResponse,
    Place,
    QueueBounds,
    Status,
    StoredEvent,
)
from durable_adk.sessions.session import Creation, Session, SessionKey


class BaseSessionService(InvocationRecords, Notebook, People, SessionQueue):
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
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int | None = None,
        page_token: str | None = None,
        updated_since: float | None = None,
    ) -> ListSessionsResponse:
        """Sessions with merged state, without events, oldest update first (SSN-8).

        Those of agents used as tools (`session.CHILD_PREFIX`) are left out. A session that is
        updated between two pages moves towards the end, so turning pages leaves none out.

        Args:
            app_name: Name of the app.
            user_id: Only this user's.
            limit: At most so many; the response's `next_page_token` says that there are more.
            page_token: Go on where the response that gave it has ended.
            updated_since: Only with an update at this time or later, in seconds since the epoch.

        Raises:
            InvalidRequestError: An id is unusable, the limit is below 1, or the token is none that
                such a call has given.
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

    async def flush(self) -> None:  # optional
        """Nothing is buffered here: every call has stored what it was given."""

    async def close(self) -> None:  # optional
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
        place: Place | None = None,
        steers: bool = False,
        bounds: QueueBounds | None = None,
    ) -> InvocationRecord:
        """Take the session's lease and append the user's event, in one transaction (D7).

        If the session is busy the same transaction takes a ticket: calls that are repeated until
        they succeed, do so in the order of their first attempts.

        Repeating the call with the same invocation id returns the record as it is now, running,
        paused or closed, and changes nothing.

        Args:
            key: The session.
            invocation_id: The invocation; its user event carries the same.
            holder: Who will run it.
            user_event: With id and timestamp; its state delta is applied.
            create_session: Create a missing session instead of refusing.
            ttl: Seconds without a commit or `renew` after which others may take the lease over;
                None for a holder whose end can be looked up, i.e. a workflow. So long its ticket
                lasts without another attempt, too.
            place: Where to begin to wait; None: take no ticket. A ticket that there is already
                keeps its number, and moves only from LAST to FIRST.
            steers: While it waits, the active invocation may take its message; see `hear`.
            bounds: How many may wait; None: any number.

        Raises:
            QueueFullError: So many wait already, and this one has no ticket yet.
            SessionBusyError: Another invocation holds the lease, or others come first.
            SessionNotFoundError: The session is missing and not to be created.
            EventConflictError: The invocation id is taken by a request with another message, or the
                event's id by another invocation, which has heard it.
            InvalidRequestError: An id is unusable, or may be an event's; or the event is another's.
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
        revision: int | None = None,
        by_step: bool = False,
    ) -> int:
        """Append an event under the lease, in one transaction; returns its sequence number (D4).

        With `closing` the same transaction closes the invocation, as `close_invocation` does.
        With `revision` there is an event of that number, or the store is not what it was (I21).
        With `by_step` the loop does not know of it yet, and may have its id; see `reserve_event`.

        `temp:` keys of the delta are not stored. A repeat (same id, same content; the timestamp is
        not compared) returns the first call's number and changes nothing, even after the lease has
        gone to someone else.

        Raises:
            SessionRegressedError: The session has fewer than `revision` events.
            EventConflictError: The id is taken by a different event, or reserved for the loop.
            LeaseLostError: `invocation_id` at `epoch` does not hold the session's lease (I6).
            InvalidRequestError: The event is partial, has no id, or is of another invocation.
            StateValueError: The event is not JSON.
        """

    @abstractmethod
    async def pause_invocation(
        self, key: SessionKey, *, invocation_id: str, epoch: int, revision: int | None = None
    ) -> InvocationRecord:
        """Let a running invocation wait without its lease, so that others may run meanwhile (D9).

        A repeat at the same epoch returns the record and changes nothing. With a `revision` it must
        have no event after that: else it has gone on, and this pause comes too late.

        Raises:
            LeaseLostError: `invocation_id` at `epoch` holds no lease to give back: it was closed,
                resumed, taken over or has gone on, or the session was deleted.
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

        What has begun goes before what has not: it waits for the lease only and for no ticket. The
        one it takes itself meanwhile keeps those without a lease from being quicker.

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
    async def hear(
        self, key: SessionKey, *, invocation_id: str, epoch: int, steered: str
    ) -> StoredEvent | None:
        """Take the message that waits as `steered`, and append it under the lease (D7).

        In one transaction: nobody opens, withdraws or hears it as well. A repeat returns the same.

        Returns:
            The event as it was sent, but of this invocation, and its number; `temp:` keys of its
            delta are not stored. None: no such message waits, or not to be heard.

        Raises:
            LeaseLostError: `invocation_id` at `epoch` does not hold the session's lease (I6).
        """

    @abstractmethod
    async def withdraw_invocation(
        self, key: SessionKey, *, invocation_id: str, holder: str, create_session: bool = False
    ) -> InvocationRecord | None:
        """What an opening whose outcome is unknown has stored; None: nothing, and it never will.

        An attempt of this holder that comes late is refused, and its ticket is dropped. With
        `create_session` the session is made, as the opening would: the refusal is kept with it.

        Raises:
            EventConflictError: Another invocation has heard its message, whose event is named after
                it; see `hear`.
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
        seals: Sequence[Event] = (),
        revision: int | None = None,
    ) -> InvocationRecord:
        """End an invocation and give its lease back; a repeat changes nothing.

        `seals` are its last events, stored in the same transaction: once they are there, no step of
        it that was taken for dead can add another.

        As ABANDONED it is ended by whoever takes the session over from a holder that is gone; the
        holder itself, should it come back, can then neither write nor close. A paused invocation,
        which holds no lease, can only be ended so, by whoever knows its epoch.

        Raises:
            LeaseLostError: Another invocation took the session over, the invocation is paused, or
                the session was deleted.
            InvalidRequestError: The status is no ending.
            StaleSessionError: The log does not end at `revision`, which the seals were made for.
        """

    @abstractmethod
    async def read_events(
        self, key: SessionKey, *, after: int = 0, upto: int | None = None, limit: int | None = None
    ) -> list[StoredEvent]:
        """Events with `after` < seq <= `upto`, in order; [] also for a missing session."""

    @abstractmethod
    async def find_event(self, key: SessionKey, event_id: str) -> StoredEvent | None:
        """The event of this id, by an index; None if there is none."""

    @abstractmethod
    async def read_state(
        self, key: SessionKey, *, epoch: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """The session's revision and merged state, read at one point in time.

        Raises:
            SessionNotFoundError: There is no such session.
            LeaseLostError: It was created after `epoch`, in place of one that was deleted.
        """

    @abstractmethod
    async def read_creation(self, key: SessionKey) -> Creation | None:
        """When the session was created; of a deleted one what the next of its name comes after.

        None: nothing is known of a session of this name.
        """

    @abstractmethod
    async def read_initial_state(self, key: SessionKey) -> dict[str, Any]:
        """The session's own keys as `create_session` was given them, which no event tells.

        {} also for a missing session, and for one that was created by a version before this call.
        """

    # ----- repair

    @abstractmethod
    async def list_apps(self) -> list[str]:
        """The apps that have sessions, by name."""

    @abstractmethod
    async def rebuild(self, sessions: Sequence[Rebuilt]) -> None:
        """Put back what sessions have lost at their ends, in one transaction (I21).

        Not for runs, which commit: it takes events, invocations and the lease as they are given,
        by whoever knows exactly what they were. State follows from the events.

        Raises:
            StaleSessionError: A session is not at `Rebuilt.after`.
            EventConflictError: The events leave a gap, or one is there already.
        """

    # ----- news

    @abstractmethod
    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # the wait is the port's own, not the caller's
        """Return as soon as there may be events beyond `after` or a paused or closed invocation.

        Only a hint (it may return early and for nothing); at the latest after `timeout` seconds.
        """
