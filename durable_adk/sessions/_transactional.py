"""The rules of the session store, written once for all kinds of tables."""

import time
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from durable_adk.errors import (
    AlreadyExistsError,
    EventConflictError,
    InvalidRequestError,
    SessionNotFoundError,
)
from durable_adk.events.event import Event
from durable_adk.sessions._changes import Changes
from durable_adk.sessions._entry import Entry, decode, decode_event, encode
from durable_adk.sessions._head import Head, lease_lost
from durable_adk.sessions._tables import Store, Tables, Window, owners
from durable_adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    InvocationRecord,
    ListSessionsResponse,
    Status,
    StoredEvent,
)
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.state import without_temp
from durable_adk.values import check_id, check_json

_PATIENCE = 0.5
"""Longest wait for a change, in seconds. An invocation that is closed between a caller's look at it
and its wait changes nothing afterwards; a wait that ends early makes the caller look again."""


class TransactionalSessionService(BaseSessionService):
    """A session service over any store with transactions.

    Each write decides inside its transaction, before it changes anything, in the order event id,
    lease, revision: so a repeated call meets its own first attempt, not its consequences (TRAP-12).
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = Changes()

    # ----- ADK's calls

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """See `BaseSessionService.create_session`."""
        key = _checked(app_name, user_id, session_id if session_id is not None else str(uuid4()))
        for name, value in (state or {}).items():
            check_json(name, "a state key")
            check_json(value, f"state[{name!r}]")
        head = _new_head()
        async with self._store.writing() as tables:
            if not await tables.add_session(key, head):
                raise AlreadyExistsError(f"The session {key.session_id!r} exists already.")
            await tables.put_state(key, encode(without_temp(state or {})))
            merged = await tables.state(key)
        self._changes.announce(key)
        return _session(key, head, merged)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """See `BaseSessionService.get_session`."""
        key = _checked(app_name, user_id, session_id)
        config = config or GetSessionConfig()
        window = Window(since=config.after_timestamp, last=config.num_recent_events)
        async with self._store.reading() as tables:
            head = await tables.head(key)
            if head is None:
                return None
            state = await tables.state(key)
            rows = await tables.events(key, window)
        session = _session(key, head, state)
        session.events = [decode_event(row.body) for row in rows]
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """See `BaseSessionService.list_sessions`."""
        async with self._store.reading() as tables:
            heads = await tables.heads(app_name, user_id)
            states = await tables.states(app_name, user_id)
        heads.sort(key=lambda item: (item[1].update_time, item[0]))
        return ListSessionsResponse(
            sessions=[
                _session(key, head, _merged(states.get(name) for name in owners(key)))
                for key, head in heads
            ]
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `BaseSessionService.delete_session`."""
        key = _checked(app_name, user_id, session_id)
        async with self._store.writing() as tables:
            await tables.remove_session(key)
        self._changes.announce(key)

    async def append_event(self, session: Session, event: Event) -> Event:
        """See `BaseSessionService.append_event`."""
        if event.partial:
            return event
        event = event.model_copy(
            update={"id": event.id or str(uuid4()), "timestamp": event.timestamp or time.time()}
        )
        entry = Entry.of(event)
        async with self._store.writing() as tables:
            head = await _existing(tables, session.key)
            row = await tables.find_event(session.key, entry.event_id)
            if row is None:
                head.require_fresh(session.revision)
                head = await _append(tables, session.key, head, entry)
                seq, stored = head.revision, entry.event()
            else:
                entry.require_same(row.digest)
                seq, stored = row.seq, decode_event(row.body)
        self._changes.announce(session.key)
        _show(session, stored, event.actions.state_delta, seq=seq, update_time=head.update_time)
        return stored

    # ----- the durable log

    async def open_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        holder: str,
        user_event: Event,
        create_session: bool = False,
        take_over_epoch: int | None = None,
        ttl: float | None = None,
    ) -> InvocationRecord:
        """See `BaseSessionService.open_invocation`."""
        key = _checked(*key)
        check_id(invocation_id, "invocation_id")
        entry = _entry_of(user_event, invocation_id)
        now = time.time()
        async with self._store.writing() as tables:
            head = await tables.head(key)
            if head is None:
                head = await _create(tables, key, create=create_session)
            opened = await tables.invocation(key, invocation_id)
            if opened is not None:
                await _require_opened_by(tables, key, opened, entry)
                return opened
            head.require_free(now, take_over_epoch)
            await _abandon(tables, key, head)
            head = head.leased(invocation_id, ttl, now)
            head = await _append(tables, key, head, entry)
            record = InvocationRecord(
                invocation_id=invocation_id,
                status=Status.RUNNING,
                epoch=head.lease_epoch,
                holder=holder,
                start_seq=head.revision,
            )
            await tables.put_invocation(key, record)
        self._changes.announce(key)
        return record

    async def commit_event(
        self, key: SessionKey, event: Event, *, invocation_id: str, epoch: int
    ) -> int:
        """See `BaseSessionService.commit_event`."""
        entry = _entry_of(event, invocation_id)
        async with self._store.writing() as tables:
            head = await tables.head(key)
            if head is None or not head.holds(invocation_id, epoch):
                return await _repeated(tables, key, entry, invocation_id, epoch)
            seq = head.revision + 1
            # The insert itself finds a repeat: one statement less for the usual, first commit.
            if not await tables.add_event(key, seq, entry):
                return await _repeated(tables, key, entry, invocation_id, epoch)
            await _advance(tables, key, head, entry)
        self._changes.announce(key)
        return seq

    async def renew(self, key: SessionKey, *, invocation_id: str, epoch: int) -> None:
        """See `BaseSessionService.renew`."""
        async with self._store.writing() as tables:
            head = await tables.head(key)
            if head is not None and head.holds(invocation_id, epoch):
                await tables.save_head(key, head.renewed(time.time()))

    async def close_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        status: Status,
        error: dict[str, Any] | None = None,
    ) -> InvocationRecord:
        """See `BaseSessionService.close_invocation`."""
        if not status.closed:
            raise InvalidRequestError(f"{status.value!r} is not a status to close with.")
        async with self._store.writing() as tables:
            head = await tables.head(key)
            record = await tables.invocation(key, invocation_id)
            if record is None or head is None or record.status is Status.ABANDONED:
                raise lease_lost(invocation_id, epoch)
            if record.status.closed and record.epoch == epoch:
                return record
            head.require_held(invocation_id, epoch)
            record.status, record.error, record.end_seq = status, error, head.revision
            await tables.put_invocation(key, record)
            await tables.save_head(key, head.released())
        self._changes.announce(key)
        return record

    async def get_invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """See `BaseSessionService.get_invocation`."""
        async with self._store.reading() as tables:
            return await tables.invocation(key, invocation_id)

    async def active_invocation(self, key: SessionKey) -> InvocationRecord | None:
        """See `BaseSessionService.active_invocation`."""
        async with self._store.reading() as tables:
            head = await tables.head(key)
            active = head and head.active(time.time())
            return await tables.invocation(key, active) if active else None

    async def read_events(
        self, key: SessionKey, *, after: int = 0, upto: int | None = None, limit: int | None = None
    ) -> list[StoredEvent]:
        """See `BaseSessionService.read_events`."""
        async with self._store.reading() as tables:
            rows = await tables.events(key, Window(after=after, upto=upto, first=limit))
        return [StoredEvent(seq=row.seq, event=decode_event(row.body)) for row in rows]

    async def read_state(self, key: SessionKey) -> tuple[int, dict[str, Any]]:
        """See `BaseSessionService.read_state`."""
        async with self._store.reading() as tables:
            head = await _existing(tables, key)
            return head.revision, decode(await tables.state(key))

    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # as in the port
        """See `BaseSessionService.wait_for_change`."""
        with self._changes.watch(key) as watch:
            async with self._store.reading() as tables:
                head = await tables.head(key)
            watch.saw(head)
            if head is None or head.revision <= after:
                await watch.wait(min(timeout, _PATIENCE))


def _checked(app_name: str, user_id: str, session_id: str) -> SessionKey:
    return SessionKey(
        check_id(app_name, "app_name"),
        check_id(user_id, "user_id"),
        check_id(session_id, "session_id"),
    )


def _new_head() -> Head:
    now = time.time()
    return Head(create_time=now, update_time=now)


def _entry_of(event: Event, invocation_id: str) -> Entry:
    if event.invocation_id != invocation_id:
        raise InvalidRequestError(
            f"The event {event.id!r} belongs to the invocation {event.invocation_id!r}, "
            f"not to {invocation_id!r}."
        )
    return Entry.of(event)


def _merged(parts: Iterable[dict[str, str] | None]) -> dict[str, str]:
    return {name: text for part in parts if part for name, text in part.items()}


def _session(key: SessionKey, head: Head, state: dict[str, str]) -> Session:
    return Session(
        id=key.session_id,
        app_name=key.app_name,
        user_id=key.user_id,
        state=decode(state),
        last_update_time=head.update_time,
        revision=head.revision,
    )


def _show(
    session: Session, event: Event, delta: dict[str, Any], *, seq: int, update_time: float
) -> None:
    """Bring a caller's copy up to date; one that already shows the event, or lacks more, stays."""
    if seq != session.revision + 1:
        return
    session.events.append(event)
    session.state.update(decode(encode(delta)))  # with the `temp:` keys (STA-6), as copies
    session.revision = seq
    session.last_update_time = update_time


async def _existing(tables: Tables, key: SessionKey) -> Head:
    head = await tables.head(key)
    if head is None:
        raise SessionNotFoundError(f"There is no session {key.session_id!r}.")
    return head


async def _create(tables: Tables, key: SessionKey, *, create: bool) -> Head:
    if create:
        await tables.add_session(key, _new_head())
    # Read again rather than used: where rows are locked one by one, another may have been first.
    return await _existing(tables, key)


async def _append(tables: Tables, key: SessionKey, head: Head, entry: Entry) -> Head:
    if not await tables.add_event(key, head.revision + 1, entry):
        raise EventConflictError(f"The id {entry.event_id!r} is taken by another event.")
    return await _advance(tables, key, head, entry)


async def _advance(tables: Tables, key: SessionKey, head: Head, entry: Entry) -> Head:
    """What changes with an event that was added: the session's row and its state."""
    head = head.appended(entry.timestamp, time.time())
    await tables.save_head(key, head)
    await tables.put_state(key, entry.delta)
    return head


async def _repeated(
    tables: Tables, key: SessionKey, entry: Entry, invocation_id: str, epoch: int
) -> int:
    """The sequence number of a commit that was made before."""
    row = await tables.find_event(key, entry.event_id)
    if row is None:
        raise lease_lost(invocation_id, epoch)
    entry.require_same(row.digest)
    return row.seq


async def _require_opened_by(
    tables: Tables, key: SessionKey, record: InvocationRecord, entry: Entry
) -> None:
    """Tell a repeated opening from another request under the same invocation id."""
    window = Window(after=record.start_seq - 1, upto=record.start_seq)
    (row,) = await tables.events(key, window)
    entry.require_same(row.digest)


async def _abandon(tables: Tables, key: SessionKey, head: Head) -> None:
    """Close the invocation whose lease is taken over."""
    if head.lease_invocation_id is None:
        return
    record = await tables.invocation(key, head.lease_invocation_id)
    if record is not None:
        record.status, record.end_seq = Status.ABANDONED, head.revision
        await tables.put_invocation(key, record)
