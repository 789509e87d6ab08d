"""Paged and partial reads of sessions and invocations."""

from collections.abc import AsyncGenerator, Collection

from durable_adk.errors import SessionNotFoundError
from durable_adk.events.event import Event
from durable_adk.sessions.log.listing import InvocationRecords
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

PAGE = 500
"""Invocations held in memory at a time when all are scanned."""
_TAIL = 64
"""Events in the first page, read from the end; each further page is twice as large."""


async def all_invocations(
    sessions: InvocationRecords,
    *,
    app_name: str,
    user_id: str | None = None,
    session_id: str | None = None,
    status: Status | None = None,
    page: int = PAGE,
) -> AsyncGenerator[tuple[SessionKey, InvocationRecord]]:
    """Yield all matching invocations, page by page; see `InvocationRecords.page_invocations`."""
    last: tuple[SessionKey, InvocationRecord] | None = None
    while True:
        found = await sessions.page_invocations(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            status=status,
            limit=page,
            after=last,
        )
        for one in found:
            yield one
        if len(found) < page:
            return
        last = found[-1]


async def read_from(sessions: SessionLog, key: SessionKey, first: int) -> list[StoredEvent]:
    """Read the events from sequence number `first` on.

    Reads all events if one of them is a rewind, which may refer to earlier ones.
    """
    stored = await sessions.read_events(key, after=first - 1)
    return await _complete(sessions, key, stored)


async def read_from_calls(
    sessions: SessionLog, key: SessionKey, call_ids: Collection[str]
) -> list[StoredEvent]:
    """Read the events since the start of the invocations that made these calls.

    If several calls have the same id, the latest counts. Reads all events if a call is not found,
    or if a rewind may refer to earlier events. Returns [] for a missing session.
    """
    try:
        start, _ = await sessions.read_state(key)
    except SessionNotFoundError:
        return []
    wanted, makers = set(call_ids) - {""}, set[str]()
    stored, upto, size = list[StoredEvent](), None, _TAIL
    while wanted and start > 0:
        start = max(start - size, 0)
        page = await sessions.read_events(key, after=start, upto=upto)
        for item in reversed(page):
            made = {call.id for call in item.event.get_function_calls() if call.id in wanted}
            # Ignore calls in user events: a client's message cannot make a call (RES-8).
            if made and item.event.author != "user":
                makers.add(item.event.invocation_id)
                wanted -= made
        stored, upto, size = page + stored, start, size * 2
    first = 1 if wanted else min([await _start(sessions, key, name) for name in makers], default=1)
    if stored and first < stored[0].seq:
        earlier = await sessions.read_events(key, after=first - 1, upto=stored[0].seq - 1)
        stored = earlier + stored
    return await _complete(sessions, key, [item for item in stored if item.seq >= first])


async def _start(sessions: SessionLog, key: SessionKey, invocation_id: str) -> int:
    """Return the sequence number of an invocation's first event; 1 if it has no record."""
    record = await sessions.get_invocation(key, invocation_id)
    return record.start_seq if record else 1


async def _complete(
    sessions: SessionLog, key: SessionKey, stored: list[StoredEvent]
) -> list[StoredEvent]:
    """Add the earlier events of the session if one of the last events is a rewind."""
    first = stored[0].seq if stored else 1
    if first > 1 and any(one.event.actions.rewind_before_invocation_id for one in stored):
        return await sessions.read_events(key, upto=first - 1) + stored
    return stored


async def delivered_event(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> Event | None:
    """Return the event as which another invocation received a message, or None."""
    stored = await sessions.find_event(key, f"{invocation_id}.0")
    if stored is None or stored.event.invocation_id == invocation_id:
        return None
    return stored.event
