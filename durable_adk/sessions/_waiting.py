"""Who waits for a session, over any store that has transactions."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from durable_adk.errors import SessionBusyError
from durable_adk.events.event import Event
from durable_adk.sessions import _pausing, _queue
from durable_adk.sessions._changes import Changes
from durable_adk.sessions._entry import entry_of
from durable_adk.sessions._tables import Store, Tables
from durable_adk.sessions.queue import SessionQueue
from durable_adk.sessions.records import InvocationRecord, Place, Status, Ticket
from durable_adk.sessions.session import SessionKey


class TransactionalQueue(SessionQueue):
    """Lets the store run the rules of `_queue`."""

    _store: Store
    _changes: Changes

    async def check_turn(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        holder: str,
        place: Place | None = None,
        resumes: bool = False,
    ) -> None:
        """See `SessionQueue.check_turn`."""
        ticket = {"invocation_id": invocation_id, "holder": holder}
        busy = await self._store.read(
            lambda tables: _queue.turn(
                tables, key, **ticket, place=place, resumes=resumes, now=time.time()
            )
        )
        if busy is not None:
            raise busy

    async def close_paused(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        status: Status,
        revision: int | None = None,
        error: dict[str, Any] | None = None,
        seals: Sequence[Event] = (),
    ) -> InvocationRecord:
        """See `SessionQueue.close_paused`."""
        closed = await self._store.write(
            partial(
                _pausing.close,
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
        if isinstance(closed, SessionBusyError):
            raise closed
        return closed

    async def waiting(self, key: SessionKey, *, limit: int | None = None) -> list[Ticket]:
        """See `SessionQueue.waiting`."""

        def work(tables: Tables) -> list[Ticket]:
            return _queue.live(tables, key, time.time(), limit=limit)

        return await self._store.read(work)

    async def leave_queue(self, key: SessionKey, *, invocation_id: str, holder: str) -> None:
        """See `SessionQueue.leave_queue`."""
        await self._store.write(
            lambda tables: _queue.drop(tables, key, invocation_id, holder, time.time())
        )
