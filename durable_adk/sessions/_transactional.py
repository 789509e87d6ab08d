"""The session service over any store that has transactions."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from durable_adk.errors import InvalidRequestError, SessionBusyError
from durable_adk.events.event import Event
from durable_adk.json_values import check_id
from durable_adk.sessions import _log, _pausing, _steering
from durable_adk.sessions._changes import Changes
from durable_adk.sessions._copies import session_copy
from durable_adk.sessions._entry import (
    Entry,
    check_state,
    decode,
    decode_event,
    encode,
    entry_of,
)
from durable_adk.sessions._invocations import TransactionalInvocations
from durable_adk.sessions._listing import Listing
from durable_adk.sessions._people import TransactionalPeople
from durable_adk.sessions._tables import Row, Store, Window
from durable_adk.sessions._waiting import TransactionalQueue
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.rebuilt import Rebuilt, rebuild
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
from durable_adk.sessions.state import USER_PREFIX, without_temp

_PATIENCE = 0.5
"""Longest wait for a change, in seconds. An invocation that is closed between a caller's look at it
and its wait changes nothing afterwards; a wait that ends early makes the caller look again."""


_FEW = 200
"""Events that are decoded in the caller's event loop; more would hold it up for too long."""


class TransactionalSessionService(
    TransactionalInvocations, TransactionalPeople, TransactionalQueue, BaseSessionService
):
    """Checks what it is given, lets the store run the rules of `_log`, and tells who waits."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
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
        key = _checked(app_name, user_id, str(uuid4()) if session_id is None else session_id)
        state = state or {}
        check_state(state)
        texts = encode(without_temp(state))
        view = await self._store.write(lambda tables: _log.create(tables, key, texts))
        self._changes.announce(key)
        return session_copy(key, view.head, view.state)

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
        view = await self._store.read(lambda tables: _log.view(tables, key, window))
        if view is None:
            return None
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
    ) -> ListSessionsResponse:
        """See `BaseSessionService.list_sessions`."""
        listing = Listing.of(
            app_name, user_id, limit=limit, page_token=page_token, updated_since=updated_since
        )
        return listing.response(await self._store.read(listing.read))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """See `BaseSessionService.get_user_state`."""
        owner = SessionKey(check_id(app_name, "app_name"), check_id(user_id, "user_id"), "")
        state = decode(await self._store.read(lambda tables: tables.state(owner)))
        return {
            name.removeprefix(USER_PREFIX): value
            for name, value in state.items()
            if name.startswith(USER_PREFIX)
        }

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `BaseSessionService.delete_session`."""
        key = _checked(app_name, user_id, session_id)
        await self._store.write(lambda tables: tables.remove_session(key))
        self._changes.announce(key)

    async def append_event(self, session: Session, event: Event) -> Event:
        """See `BaseSessionService.append_event`."""
        if event.partial:
            return event
        event = event.model_copy(
            update={"id": event.id or str(uuid4()), "timestamp": event.timestamp or time.time()}
        )
        entry = Entry.of(event)
        row, head = await self._store.write(
            lambda tables: _log.append(tables, session.key, entry, session.revision)
        )
        self._changes.announce(session.key)
        stored = decode_event(row.body)
        # A copy that shows the event already, or lacks others before it, stays as it is.
        if row.seq == session.revision + 1:
            session.events.append(stored)
            session.state.update(decode(encode(event.actions.state_delta)))  # `temp:` too (STA-6)
            session.revision, session.last_update_time = row.seq, head.update_time
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
        ttl: float | None = None,
        place: Place | None = None,
        steers: bool = False,
        bounds: QueueBounds | None = None,
    ) -> InvocationRecord:
        """See `BaseSessionService.open_invocation`."""
        key = _checked(*key)
        check_id(invocation_id, "invocation_id")
        opened = await self._store.write(
            partial(
                _log.open_invocation,
                key=key,
                entry=entry_of(user_event, invocation_id),
                holder=holder,
                create_session=create_session,
                ttl=ttl,
                place=place,
                message=user_event.to_json() if steers else None,
                bounds=bounds,
            )
        )
        return self._taken(key, opened)

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
        """See `BaseSessionService.commit_event`."""
        if closing is not None:
            _require_ending(closing)
        entry = entry_of(event, invocation_id)
        seq = await self._store.write(
            partial(
                _log.commit,
                key=key,
                entry=entry,
                invocation_id=invocation_id,
                epoch=epoch,
                closing=closing,
                revision=revision,
                by_step=by_step,
            )
        )
        self._changes.announce(key)
        return seq

    async def pause_invocation(
        self, key: SessionKey, *, invocation_id: str, epoch: int, revision: int | None = None
    ) -> InvocationRecord:
        """See `BaseSessionService.pause_invocation`."""
        record = await self._store.write(
            lambda tables: _pausing.pause(
                tables, key, invocation_id=invocation_id, epoch=epoch, revision=revision
            )
        )
        self._changes.announce(key)
        return record

    async def resume_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        holder: str,
        user_event: Event | None,
        ttl: float | None = None,
    ) -> InvocationRecord:
        """See `BaseSessionService.resume_invocation`."""
        resumed = await self._store.write(
            partial(
                _pausing.resume,
                key=key,
                entry=user_event and entry_of(user_event, invocation_id),
                invocation_id=invocation_id,
                holder=holder,
                ttl=ttl,
            )
        )
        return self._taken(key, resumed)

    def _taken(
        self, key: SessionKey, record: InvocationRecord | SessionBusyError
    ) -> InvocationRecord:
        if isinstance(record, SessionBusyError):
            raise record
        self._changes.announce(key)
        return record

    async def hear(
        self, key: SessionKey, *, invocation_id: str, epoch: int, steered: str
    ) -> StoredEvent | None:
        """See `BaseSessionService.hear`."""
        under = {"invocation_id": invocation_id, "steered": steered}
        heard = await self._store.write(partial(_steering.hear, key=key, epoch=epoch, **under))
        self._changes.announce(key)
        return heard

    async def withdraw_invocation(
        self, key: SessionKey, *, invocation_id: str, holder: str, create_session: bool = False
    ) -> InvocationRecord | None:
        """See `BaseSessionService.withdraw_invocation`."""
        return await self._store.write(
            lambda tables: _log.withdraw(
                tables, key, invocation_id, holder, create_session=create_session
            )
        )

    async def renew(self, key: SessionKey, *, invocation_id: str, epoch: int) -> None:
        """See `BaseSessionService.renew`."""
        await self._store.write(
            lambda tables: _log.renew(tables, key, invocation_id=invocation_id, epoch=epoch)
        )

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
        """See `BaseSessionService.close_invocation`."""
        _require_ending(status)
        record = await self._store.write(
            partial(
                _log.close,
                key=key,
                invocation_id=invocation_id,
                epoch=epoch,
                status=status,
                error=error,
                seals=[entry_of(event, invocation_id) for event in seals],
                revision=revision,
            )
        )
        self._changes.announce(key)
        return record

    async def read_events(
        self, key: SessionKey, *, after: int = 0, upto: int | None = None, limit: int | None = None
    ) -> list[StoredEvent]:
        """See `BaseSessionService.read_events`."""
        window = Window(after=after, upto=upto, first=limit)
        rows = await self._store.read(lambda tables: tables.events(key, window))
        return await _decode(rows)

    async def find_event(self, key: SessionKey, event_id: str) -> StoredEvent | None:
        """See `BaseSessionService.find_event`."""
        row = await self._store.read(lambda tables: tables.find_event(key, event_id))
        return None if row is None else _decoded([row])[0]

    async def read_state(
        self, key: SessionKey, *, epoch: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """See `BaseSessionService.read_state`."""
        head, state = await self._store.read(
            lambda tables: (_log.existing(tables, key, epoch=epoch), tables.state(key))
        )
        return head.revision, decode(state)

    async def read_creation(self, key: SessionKey) -> Creation | None:
        """See `BaseSessionService.read_creation`."""
        return await self._store.read(lambda tables: _log.creation(tables, key))

    async def read_initial_state(self, key: SessionKey) -> dict[str, Any]:
        """See `BaseSessionService.read_initial_state`."""
        return decode(await self._store.read(lambda tables: tables.initial_state(key)))

    # ----- repair

    async def list_apps(self) -> list[str]:
        """See `BaseSessionService.list_apps`."""
        return await self._store.read(lambda tables: tables.apps())

    async def rebuild(self, sessions: Sequence[Rebuilt]) -> None:
        """See `BaseSessionService.rebuild`."""
        await self._store.write(lambda tables: rebuild(tables, sessions))
        for one in sessions:
            self._changes.announce(one.key)

    # ----- news

    async def wait_for_change(self, key: SessionKey, *, after: int, timeout: float) -> None:  # noqa: ASYNC109  # as in the port
        """See `BaseSessionService.wait_for_change`."""
        with self._changes.watch(key) as watch:
            # After the watch is set, so that no change falls between the look and the wait.
            head = await self._store.read(lambda tables: tables.head(key))
            watch.saw(head)
            if head is None or head.revision <= after:
                await watch.wait(min(timeout, _PATIENCE))


def _checked(app_name: str, user_id: str, session_id: str) -> SessionKey:
    return SessionKey(
        check_id(app_name, "app_name"),
        check_id(user_id, "user_id"),
        check_id(session_id, "session_id"),
    )


async def _decode(rows: list[Row]) -> list[StoredEvent]:
    return _decoded(rows) if len(rows) <= _FEW else await asyncio.to_thread(_decoded, rows)


def _decoded(rows: list[Row]) -> list[StoredEvent]:
    return [StoredEvent(seq=row.seq, event=decode_event(row.body)) for row in rows]


def _require_ending(status: Status) -> None:
    if not status.closed:
        raise InvalidRequestError(f"An invocation is not closed as {status.value!r}.")
