"""A stream of the status changes of all invocations, for lists, counts and the inbox."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Annotated
from weakref import WeakSet

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from durable_adk.errors import StoreUnavailableError
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.feed import FeedEntry, StatusItem, status_item
from durable_adk.server.routes.listing import OfApp, OfUser
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.server.streams import ITEMS, EventStream, Reading
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

router = APIRouter(tags=["invocations"])
_log = logging.getLogger(__name__)
_POLL = 0.5
"""Seconds between two looks at the store, which all readers share."""
_OVERLAP = 10.0
"""Seconds that a status may be stored late, or by a clock that is late."""
_WAITING = 1000
"""Changes kept for a reader that is slow; the oldest are dropped, and its lists are old then."""
_PAGE = 500


class StatusChanges:
    """Looks for changes as long as anybody reads them.

    Args:
        services: Of the server.
    """

    def __init__(self, services: ServerServices) -> None:
        self._services = services
        # A response whose reader went away before the first byte never begins to read.
        self._readers = WeakSet[_Reader]()
        self._looking: asyncio.Task[None] | None = None

    async def follow(self, app_name: str | None, user_id: str | None) -> AsyncGenerator[FeedEntry]:
        """Return the changes from now on, of one app or user or of all; without an end.

        Raises:
            StoreUnavailableError: The store does not answer, so nobody knows what is new.
        """
        if not self._is_looking():
            since = time.time()
            seen = set(await self._changed(since - _OVERLAP))
            if not self._is_looking():  # another reader may have come meanwhile
                self._looking = asyncio.create_task(self._look(seen, since))
        reader = _Reader(app_name, user_id)
        self._readers.add(reader)
        return self._read(reader)

    async def _read(self, reader: "_Reader") -> AsyncGenerator[FeedEntry]:
        try:
            while True:
                yield FeedEntry(None, await reader.next())
        finally:
            self._readers.discard(reader)

    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    async def _look(self, seen: "set[_Change]", since: float) -> None:
        while self._readers:
            try:
                began = time.time()
                found = set(await self._changed(since - _OVERLAP))
            except StoreUnavailableError:
                pass  # the next look finds what this one has missed
            except Exception:  # noqa: BLE001 - readers would wait forever for the next look
                _log.exception("The status of invocations could not be read; it is read again.")
            else:
                for change in sorted(found - seen):
                    for reader in self._readers:
                        reader.add(change.item)
                seen, since = found, began
            await asyncio.sleep(_POLL)

    async def _changed(self, since: float) -> list["_Change"]:
        """Return the invocations whose status changed lately."""
        found = list[_Change]()
        for name in await self._services.app_names():
            newest = await self._services.session_service.newest_invocations(
                app_name=name, limit=_PAGE
            )
            found += [_Change(record.update_time, key, record) for key, record in newest]
        return [change for change in found if change.time >= since]


class _Change:
    """A status of an invocation, and when it got it."""

    def __init__(self, at: float, key: SessionKey, record: InvocationRecord) -> None:
        self.time = at
        self.item = status_item(key, record)
        self._same = (at, *key, record.invocation_id, record.status)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Change) and self._same == other._same

    def __lt__(self, other: "_Change") -> bool:
        return self._same < other._same

    def __hash__(self) -> int:
        return hash(self._same)


class _Reader:
    """What one reader has not read."""

    def __init__(self, app_name: str | None, user_id: str | None) -> None:
        self._app_name = app_name
        self._user_id = user_id
        self._waiting = deque[StatusItem](maxlen=_WAITING)
        self._news = asyncio.Event()

    def add(self, item: StatusItem) -> None:
        """Add a change, if the reader wants it."""
        if self._app_name in (None, item.app_name) and self._user_id in (None, item.user_id):
            self._waiting.append(item)
            self._news.set()

    async def next(self) -> StatusItem:
        """Return the oldest change that was not read."""
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()


async def _changes_of(request: Request) -> StatusChanges:
    state = request.app.state
    if not hasattr(state, "changes"):
        state.changes = StatusChanges(state.services)
    found: StatusChanges = state.changes
    return found


@router.get("/changes", response_class=EventStream)
async def get_changes(
    services: CurrentServices,
    caller: CurrentCaller,
    changes: Annotated[StatusChanges, Depends(_changes_of)],
    app_name: OfApp = None,
    user_id: OfUser = None,
) -> Response:
    """Stream each new status of the invocations that the caller may see, from now on."""
    user = caller.only(user_id)
    return EventStream(services, Reading(await changes.follow(app_name, user)), ITEMS)
