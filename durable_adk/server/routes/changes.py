"""A stream of the changes of all invocations and sessions, for lists, counts and the inbox."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal, Self
from weakref import WeakSet

from fastapi import APIRouter, Depends, Request
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from durable_adk.errors import StoreUnavailableError
from durable_adk.json_values import JsonModel
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.feed import StatusItem, status_item
from durable_adk.server.routes.listing import OfApp, OfUser
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.server.streams import ITEMS, EventStream, Reading, Renderer, sent
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey

router = APIRouter(tags=["invocations"])
_log = logging.getLogger(__name__)
_POLL = 0.5
"""Seconds between two reads of the store, which all readers share."""
_OVERLAP = 10.0
"""Seconds by which a status may be stored late, or by a clock that is behind."""
_WAITING = 1000
"""Number of changes kept for a slow reader; the oldest are dropped, and the reader's lists are then
out of date."""
_PAGE = 500


class DeletedItem(JsonModel):
    """A session that was deleted together with its invocations."""

    type: Literal["deleted"] = "deleted"
    app_name: str
    user_id: str
    session_id: str


Change = StatusItem | DeletedItem


class StatusChanges:
    """Polls the store for changes while there are readers.

    Args:
        services: The server's services.
    """

    def __init__(self, services: ServerServices) -> None:
        self._services = services
        # Weak references: a response whose reader disconnects before the first byte is never read.
        self._readers = WeakSet[_Reader]()
        self._polling: asyncio.Task[None] | None = None

    async def follow(self, app_name: str | None, user_id: str | None) -> AsyncGenerator[Change]:
        """Return the changes from now on, of one app or user or of all, without an end.

        Raises:
            StoreUnavailableError: The store does not respond.
        """
        if not self._is_polling():
            since = time.time()
            known = await self._newest()
            if not self._is_polling():  # another reader may have started it in the meantime
                self._polling = asyncio.create_task(self._poll(known, since))
        reader = _Reader(app_name, user_id)
        self._readers.add(reader)
        return self._read(reader)

    async def _read(self, reader: "_Reader") -> AsyncGenerator[Change]:
        try:
            while True:
                yield await reader.next()
        finally:
            self._readers.discard(reader)

    def _is_polling(self) -> bool:
        return self._polling is not None and not self._polling.done()

    async def _poll(self, known: "_Newest", since: float) -> None:
        seen = known.since(since - _OVERLAP)
        while self._readers:
            try:
                began = time.time()
                newest = await self._newest()
            except StoreUnavailableError:
                pass  # the next poll finds the missed changes
            except Exception:  # noqa: BLE001 - otherwise readers would wait forever for the next poll
                _log.exception("The status of invocations could not be read; it is read again.")
            else:
                found = newest.since(since - _OVERLAP)
                new_items = [status_item(one.key, one.record) for one in sorted(found - seen)]
                for item in (*new_items, *known.deleted(newest)):
                    for reader in self._readers:
                        reader.add(item)
                known, seen, since = newest, found, began
            await asyncio.sleep(_POLL)

    async def _newest(self) -> "_Newest":
        """Return each app's newest invocations."""
        found = _Newest(frozenset(self._services.apps))
        for name in await self._services.app_names():
            newest = await self._services.session_service.invocations_by_time(
                app_name=name, limit=_PAGE
            )
            found.add(name, [_Change.of(*one) for one in newest])
        return found


@dataclass(frozen=True, order=True)
class _Change:
    """A status of an invocation, and the time of its change."""

    time: float
    key: SessionKey
    invocation_id: str
    status: Status
    record: InvocationRecord = field(compare=False)

    @classmethod
    def of(cls, key: SessionKey, record: InvocationRecord) -> Self:
        """Return the last change of an invocation."""
        return cls(record.update_time, key, record.invocation_id, record.status, record)


class _Newest:
    """The newest invocations in one poll, and their sessions.

    Args:
        apps: The apps that are polled; none: all apps of the store. There, an app disappears with
            its last session. A server that still loads its apps polls all apps until then.
    """

    def __init__(self, apps: frozenset[str]) -> None:
        self._apps = apps
        self._changes = list[_Change]()
        self._sessions = dict[SessionKey, float]()
        """Time of each session's latest status change."""
        self._upto = dict[str, float]()
        """Apps that also have older invocations, and the time of the oldest polled one."""

    def add(self, app_name: str, changes: "list[_Change]") -> None:
        """Add an app's changes."""
        self._changes += changes
        for change in changes:
            self._sessions[change.key] = max(change.time, self._sessions.get(change.key, 0.0))
        if len(changes) >= _PAGE:
            self._upto[app_name] = min(change.time for change in changes)

    def since(self, at: float) -> "set[_Change]":
        """Return the changes at or after a time."""
        return {change for change in self._changes if change.time >= at}

    def lacks(self, key: SessionKey, at: float) -> bool:
        """Return whether a session with this time is missing from this poll, and so was deleted."""
        is_polled = not self._apps or key.app_name in self._apps
        is_within = is_polled and at > self._upto.get(key.app_name, 0.0)
        return is_within and key not in self._sessions

    def deleted(self, later: "_Newest") -> list[DeletedItem]:
        """Return the sessions that a later poll lacks, and that were therefore deleted."""
        deleted = [key for key, at in self._sessions.items() if later.lacks(key, at)]
        return [DeletedItem(**key._asdict()) for key in deleted]


class _Reader:
    """The changes that one reader has not read yet."""

    def __init__(self, app_name: str | None, user_id: str | None) -> None:
        self._app_name = app_name
        self._user_id = user_id
        self._waiting = deque[Change](maxlen=_WAITING)
        self._available = asyncio.Event()

    def add(self, item: Change) -> None:
        """Add a change if it matches the reader's app and user."""
        if self._app_name in (None, item.app_name) and self._user_id in (None, item.user_id):
            self._waiting.append(item)
            self._available.set()

    async def next(self) -> Change:
        """Return the oldest unread change, waiting for one if necessary."""
        while not self._waiting:
            self._available.clear()
            await self._available.wait()
        return self._waiting.popleft()


async def _changes_of(request: Request) -> StatusChanges:
    state = request.app.state
    if not hasattr(state, "changes"):
        state.changes = StatusChanges(state.services)
    found: StatusChanges = state.changes
    return found


def _as_event(item: Change) -> Iterable[ServerSentEvent]:
    yield sent(item.to_json(), position=None, event=item.type)


_RENDERER = Renderer[Change](entry=_as_event, error=ITEMS.error)


@router.get("/changes", response_class=EventStream)
async def get_changes(
    services: CurrentServices,
    caller: CurrentCaller,
    changes: Annotated[StatusChanges, Depends(_changes_of)],
    app_name: OfApp = None,
    user_id: OfUser = None,
) -> Response:
    """Stream each new status of the invocations that the caller may access, from now on.

    Also streams deleted sessions, if one of their invocations is among the app's newest.
    """
    user = caller.only(user_id)
    return EventStream(services, Reading(await changes.follow(app_name, user)), _RENDERER)
