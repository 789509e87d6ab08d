"""The session store: ADK's calls, and the durable log of invocations.

The log's guarantees, which `tests/unit/sessions/test_contract*.py` check on every storage:

* One transaction per write: event, state, revision and lease change together or not at all.
* Every write can be retried after a lost acknowledgement: the event id is checked before the
  lease, so that a retry finds its own first attempt (TRAP-11, TRAP-12).
* Events are ordered by sequence number, 1, 2, 3 ... without gaps, never by timestamp (TRAP-15).
* Results are copies, so uncommitted changes of one caller are invisible to others (TRAP-8).
* A store that does not respond raises StoreUnavailableError. The outcome is then unknown, and the
  caller retries with the same ids.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Any, Self
from uuid import uuid4

from durable_adk.errors import InvalidRequestError, PayloadTooLargeError, SessionNotFoundError
from durable_adk.events.event import Event
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.google_objects import from_google_adk
from durable_adk.json_values import canonical, check_id
from durable_adk.sessions.log import sessions
from durable_adk.sessions.log.copies import Copies
from durable_adk.sessions.log.entry import (
    Entry,
    check_state,
    decode,
    decode_event,
    encode,
    session_copy,
)
from durable_adk.sessions.log.feed import SessionReads, decoded
from durable_adk.sessions.log.head import lease_lost
from durable_adk.sessions.log.invocation_log import InvocationLog
from durable_adk.sessions.log.listing import InvocationRecords, Listing, position_of
from durable_adk.sessions.log.notes import Notes
from durable_adk.sessions.log.queue import Queue
from durable_adk.sessions.log.rebuild import Rebuilt, rebuild
from durable_adk.sessions.log.storage import Page, Row, Window
from durable_adk.sessions.records import (
    GetSessionConfig,
    InvocationRecord,
    ListSessionsResponse,
    ServedApp,
    StoredEvent,
)
from durable_adk.sessions.session import Creation, Session, SessionKey, checked_key
from durable_adk.sessions.sql.tables import Tables
from durable_adk.sessions.state import USER_PREFIX, without_temp

_TAIL = 64
"""Events in the first page, read from the end; each further page is twice as large."""
_OF_STORE = SessionKey("", "", "")
"""Owner of the state that belongs to the store itself; ids are never empty."""
_SERVED = SessionKey("", "", "served")
"""Owner of workers' announcements, separate from the data that each opening reads of the store."""
SERVED_FOR = 24 * 3600.0
"""Seconds for which an app counts as served after a worker has announced it."""
_SHORT = 200_000
"""Maximum characters of events parsed in the caller's event loop; more would block it too long."""


class SessionLog(InvocationLog, InvocationRecords, SessionReads, Queue, Notes, Copies):
    """The session service over a transactional storage: ADK's calls and the runtime's calls.

    All calls raise StoreUnavailableError while the storage does not respond.
    """

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; without an id, or with a blank one, it gets a new uuid (SSN-2, SSN-4).

        `state` is split by prefix; `temp:` keys are dropped.

        Raises:
            AlreadyExistsError: The id is taken (SSN-3).
            InvalidRequestError: An id is invalid.
            StateValueError: The state is not JSON.
        """
        if session_id is None or not str(session_id).strip():
            session_id = str(uuid4())
        key = checked_key(app_name, user_id, session_id)
        state = state or {}
        check_state(state)
        texts = encode(without_temp(state))
        view = await self._change(sessions.create, key, texts)
        return session_copy(key, view.head, view.state)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
        max_size: int | None = None,
    ) -> Session | None:
        """Return an independent copy with the full state; None if missing (SSN-5, SSN-7).

        Raises:
            PayloadTooLargeError: Its events have `max_size` characters or more.
        """
        key = checked_key(app_name, user_id, session_id)
        config = config or GetSessionConfig()
        window = Window(since=config.after_timestamp, last=config.num_recent_events, size=max_size)
        view = await self._store.read(lambda tables: sessions.view(tables, key, window))
        if view is None:
            return None
        _require_small(view.rows, max_size)
        session = session_copy(key, view.head, view.state)
        session.events = [item.event for item in await _decode(view.rows)]
        return session

    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int | None = None,
        page_token: str | None = None,
        updated_since: float | None = None,
        newest_first: bool = False,
        max_size: int | None = None,
    ) -> ListSessionsResponse:
        """List sessions with merged state but without events, oldest update first (SSN-8).

        Sessions of agents used as tools (`session.CHILD_PREFIX`) are excluded. A session that is
        updated between two pages moves towards the end, so paging never skips one.

        Args:
            app_name: Name of the app.
            user_id: Restricts the list to one user.
            limit: Maximum number of sessions. If there are more, the response has a
                `next_page_token`.
            page_token: The token of the previous page.
            updated_since: Earliest update, in seconds since the epoch.
            newest_first: List the latest update first.
            max_size: Characters of state after which a page ends, unless it has only one session.

        Raises:
            InvalidRequestError: An id is invalid, the limit is below 1, or the token was not
                returned by a call with the same app and user.
        """
        if limit is not None and limit < 1:
            raise InvalidRequestError(f"limit is {limit}; pass 1 or more, or None for all.")
        app_name = check_id(app_name, "app_name")
        user_id = None if user_id is None else check_id(user_id, "user_id")
        listing = Listing(
            app_name=app_name,
            user_id=user_id,
            limit=limit,
            after=position_of(page_token, app_name, user_id),
            since=updated_since,
            newest_first=newest_first,
            max_size=max_size,
        )
        return listing.response(await self._store.read(listing.read))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session and its events, if it exists; app and user state are kept (SSN-9).

        The same transaction deletes the sessions of agents that its calls used as tools.
        """
        key = checked_key(app_name, user_id, session_id)
        await self._change(sessions.remove, key)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event outside any invocation, and update the passed session (SSN-10).

        A partial event changes nothing. An event without an id gets a new uuid, one without a
        timestamp the current time; they are set on the passed object, so that appending it again
        stores nothing. `temp:` keys are set in `session.state` only.

        Returns:
            The event as stored.

        Raises:
            StaleSessionError: Events were stored after `session.revision` (SSN-30).
            SessionNotFoundError: The session is not in storage (SSN-11).
            EventConflictError: The id is taken by a different event (SSN-12).
        """
        if event.partial:
            return event
        # The caller's object keeps both, so that appending it again finds the first attempt.
        event.id = event.id or Event.new_id()
        event.timestamp = event.timestamp or time.time()
        given, event = event, from_google_adk(event)
        event.id, event.timestamp = given.id, given.timestamp
        entry = Entry.of(event)
        row, head = await self._change(sessions.append, session.key, entry, session.revision)
        stored = decode_event(row.body)
        # Do not change a copy that already has the event or lacks earlier events.
        if row.seq == session.revision + 1:
            session.events.append(stored)
            session.state.update(decode(encode(event.actions.state_delta)))  # `temp:` too (STA-6)
            session.revision, session.last_update_time = row.seq, head.update_time
        return stored

    async def flush(self) -> None:
        """Do nothing: every call stores its data before it returns."""

    async def close(self) -> None:
        """Close connections and files."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return a copy of the user's state, keys without `user:`; {} if there is none (SSN-13).

        Raises:
            InvalidRequestError: An id is invalid.
        """
        user = _checked_user(app_name, user_id)
        state = decode(await self._store.read(lambda tables: tables.state(user)))
        return {
            name.removeprefix(USER_PREFIX): value
            for name, value in state.items()
            if name.startswith(USER_PREFIX)
        }

    async def read_events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        max_size: int | None = None,
    ) -> list[StoredEvent]:
        """Read the events with `after` < seq <= `upto`, in order; [] for a missing session.

        Raises:
            PayloadTooLargeError: They have `max_size` characters or more.
        """
        window = Window(after=after, upto=upto, first=limit, size=max_size)
        rows = await self._store.read(lambda tables: tables.events(key, window))
        _require_small(rows, max_size)
        return await _decode(rows)

    async def read_opening(self, key: SessionKey, record: InvocationRecord) -> StoredEvent:
        """Read the event with which an invocation began.

        Raises:
            LeaseLostError: The session was deleted since its record was read.
        """
        found = await self.read_events(key, after=record.start_seq - 1, upto=record.start_seq)
        if not found or found[0].event.invocation_id != record.invocation_id:
            raise lease_lost(record.invocation_id, record.epoch)
        return found[0]

    async def find_event(self, key: SessionKey, event_id: str) -> StoredEvent | None:
        """Find an event by its id, using an index."""
        row = await self._store.read(lambda tables: tables.find_event(key, event_id))
        return None if row is None else decoded([row])[0]

    async def read_from_calls(
        self, key: SessionKey, call_ids: Collection[str], *, since: int | None = None
    ) -> list[StoredEvent]:
        """Read the events since the start of the invocations that made these calls.

        If several calls have the same id, the latest counts; of a node's questions the latest one
        without an answer, if there is one. Reads all events if a call is not found, or if a rewind
        may refer to earlier events. Returns [] for a missing session.

        Args:
            key: The session.
            call_ids: The ids of the calls.
            since: The sequence number of an event from which on all are read in any case.
        """
        try:
            start = await self.read_revision(key)
        except SessionNotFoundError:
            return []
        wanted, makers, known = set(call_ids) - {""}, set[str](), set[str | None]()
        answered = set[tuple[str | None, str]]()
        stored, upto, size = list[StoredEvent](), None, _TAIL
        while wanted and start > 0:
            start = max(start - size, 0)
            page = await self.read_events(key, after=start, upto=upto)
            for item in reversed(page):
                name, event = item.event.invocation_id, item.event
                answered |= {(one.id, name) for one in event.get_function_responses()}
                # Ignore calls in user events: a client's message cannot make a call (RES-8).
                made = [call for call in event.get_function_calls() if call.id in wanted]
                if made and event.author != "user":
                    makers.add(name)
                    known |= {call.id for call in made}
                    asked = (call for call in made if (call.id, name) in answered)
                    closed = {call.id for call in asked if call.name == REQUEST_INPUT}
                    wanted -= {call.id or "" for call in made} - closed
            stored, upto, size = page + stored, start, size * 2
        begun = [await self._first_seq(key, name) for name in makers]
        begun += [] if since is None else [since]
        first = 1 if wanted - known else min(begun, default=1)
        if stored and first < stored[0].seq:
            earlier = await self.read_events(key, after=first - 1, upto=stored[0].seq - 1)
            stored = earlier + stored
        return await self._with_rewound(key, [item for item in stored if item.seq >= first])

    async def _first_seq(self, key: SessionKey, invocation_id: str) -> int:
        """Return the sequence number of an invocation's first event; 1 if it has no record."""
        record = await self.get_invocation(key, invocation_id)
        return record.start_seq if record else 1

    async def _with_rewound(self, key: SessionKey, stored: list[StoredEvent]) -> list[StoredEvent]:
        """Add the earlier events of the session if one of the last events is a rewind."""
        first = stored[0].seq if stored else 1
        if first > 1 and any(one.event.actions.rewind_before_invocation_id for one in stored):
            return await self.read_events(key, upto=first - 1) + stored
        return stored

    async def delivered_event(self, key: SessionKey, invocation_id: str) -> Event | None:
        """Return the event under which another invocation stored a message, or None."""
        stored = await self.find_event(key, f"{invocation_id}.0")
        if stored is None or stored.event.invocation_id == invocation_id:
            return None
        return stored.event

    async def read_state(
        self, key: SessionKey, *, epoch: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Read the session's revision and merged state at one point in time.

        Raises:
            SessionNotFoundError: The session is missing.
            LeaseLostError: It was created after `epoch`, in place of a deleted one.
        """
        head, state = await self._store.read(
            lambda tables: (sessions.existing(tables, key, epoch=epoch), tables.state(key))
        )
        return head.revision, decode(state)

    async def read_revision(self, key: SessionKey, *, epoch: int | None = None) -> int:
        """Read the session's revision; see `read_state`."""
        head = await self._store.read(lambda tables: sessions.existing(tables, key, epoch=epoch))
        return head.revision

    async def read_awaiting(self, key: SessionKey) -> list[str]:
        """Read the ids of the invocations that wait for a message; see `Head.awaiting_message`."""
        head = await self._store.read(lambda tables: tables.head(key))
        return [] if head is None else head.awaiting_ids

    async def read_creation(self, key: SessionKey) -> Creation | None:
        """Read when the session was created.

        For a deleted session, returns the earliest possible creation of the next session of its
        name; None if no session of this name is known.
        """
        return await self._store.read(lambda tables: sessions.creation(tables, key))

    async def read_horizon(self, name: str) -> float:
        """Return the time until which the store contains everything that a task queue committed.

        In seconds since the epoch; 0.0 if it was never compared. See `StalenessCheck`.
        """
        states = await self._store.read(lambda tables: tables.state(_OF_STORE))
        return float(states.get(name) or 0.0)

    async def raise_horizon(self, name: str, *, seen: float, to: float) -> None:
        """Set the horizon to a later time, unless the store has an earlier one than was `seen`."""

        def work(tables: Tables) -> None:
            stored = float(tables.locked_state(_OF_STORE, [name]).get(name) or 0.0)
            if seen <= stored < to:
                tables.put_state(_OF_STORE, {name: repr(to)})

        await self._store.write(work)

    async def read_initial_state(self, key: SessionKey) -> dict[str, Any]:
        """Read the session's own keys as passed to `create_session`; they are in no event.

        Returns {} for a missing session.
        """
        return decode(await self._store.read(lambda tables: tables.initial_state(key)))

    async def user_sessions(self, *, app_name: str, user_id: str) -> list[SessionKey]:
        """List all sessions of a user, sorted, including those that `list_sessions` excludes.

        Raises:
            InvalidRequestError: An id is invalid.
        """
        user = _checked_user(app_name, user_id)
        return sorted(await self._store.read(lambda tables: tables.sessions_of(user)))

    async def stored_size(self, *, app_name: str, user_id: str) -> int:
        """Return how many characters a user has stored: events, state, and 1,000 for each session.

        Raises:
            InvalidRequestError: An id is invalid.
        """
        user = _checked_user(app_name, user_id)
        return await self._store.read(lambda tables: tables.size_of_user(user))

    async def delete_user_state(self, *, app_name: str, user_id: str) -> None:
        """Delete the state shared by a user's sessions, and the tombstones of those sessions.

        Raises:
            InvalidRequestError: An id is invalid.
        """
        user = _checked_user(app_name, user_id)
        await self._store.write(lambda tables: _remove_user(tables, user))

    async def scrub(self) -> None:
        """Erase deleted data from files as far as the storage can; they keep it until then."""

    async def list_apps(self, user_id: str | None = None) -> list[str]:
        """List the apps that have sessions, or sessions of a user, sorted by name."""
        if user_id is None:
            return await self._store.read(lambda tables: tables.apps())
        return await self._store.read(
            lambda tables: [
                name for name in tables.apps() if tables.heads(name, user_id, Page(limit=1))
            ]
        )

    async def announce_apps(self, apps: Collection[ServedApp]) -> None:
        """Record that a worker serves apps, replacing earlier announcements of the same apps."""
        rows = {canonical([one.namespace, one.task_queue, one.name]): one.to_json() for one in apps}
        await self._store.write(lambda tables: tables.put_state(_SERVED, rows))

    async def served_apps(self) -> list[ServedApp]:
        """List the apps that workers have announced within `SERVED_FOR`, sorted by name."""
        stored = await self._store.read(lambda tables: tables.states([_SERVED]))
        found = [ServedApp.from_json(text) for text in stored.get(_SERVED, {}).values()]
        since = time.time() - SERVED_FOR
        return sorted((one for one in found if one.update_time >= since), key=lambda one: one.name)

    async def rebuild(self, sessions: Sequence[Rebuilt]) -> None:
        """Restore events that sessions have lost at their ends, in one transaction (I21).

        For repair only; runs use `commit_event`. Events, invocations and the lease are stored
        unchanged, and the state is derived from the events.

        Raises:
            StaleSessionError: A session is not at `Rebuilt.after`.
            EventConflictError: The events leave a gap, or one of them is stored already.
        """
        await self._store.write(lambda tables: rebuild(tables, sessions))
        for one in sessions:
            self._changes.announce(one.key)


def _checked_user(app_name: str, user_id: str) -> SessionKey:
    """Build the key of a user, stored as a session that has no id and only state."""
    return SessionKey(check_id(app_name, "app_name"), check_id(user_id, "user_id"), "")


def _remove_user(tables: Tables, user: SessionKey) -> None:
    tables.remove_session(user)
    tables.remove_tombstones(user)


def _require_small(rows: list[Row], max_size: int | None) -> None:
    if max_size is not None and sum(len(row.body) for row in rows) >= max_size:
        raise PayloadTooLargeError(
            f"The session's events have {max_size:,} characters or more; follow them as a stream, "
            "GET .../events, or read fewer at once."
        )


async def _decode(rows: list[Row]) -> list[StoredEvent]:
    short = sum(len(row.body) for row in rows) <= _SHORT
    return decoded(rows) if short else await asyncio.to_thread(decoded, rows)
