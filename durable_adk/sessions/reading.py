"""Reading what is needed of sessions and invocations, and in pieces."""

from collections.abc import AsyncGenerator, Collection

from durable_adk.errors import SessionNotFoundError
from durable_adk.sessions.log.listing import InvocationRecords
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

PAGE = 500
"""Invocations that are in memory at a time where all are looked through."""
_TAIL = 64
"""Events that are read first, from the end; each further page has twice as many."""


async def all_invocations(
    sessions: InvocationRecords,
    *,
    app_name: str,
    user_id: str | None = None,
    session_id: str | None = None,
    status: Status | None = None,
    page: int = PAGE,
) -> AsyncGenerator[tuple[SessionKey, InvocationRecord]]:
    """All invocations that fit, however many; see `InvocationRecords.page_invocations`."""
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
    """The events from a sequence number on; all, if one of them is a rewind, which may go back."""
    stored = await sessions.read_events(key, after=first - 1)
    return await _complete(sessions, key, stored)


async def read_from_calls(
    sessions: SessionLog, key: SessionKey, call_ids: Collection[str]
) -> list[StoredEvent]:
    """The events since the invocations began that have made these calls.

    Of the calls of an id the latest counts. All events, if one of the calls is not there, or if a
    rewind may go back further; [] also for a missing session.
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
            # What a client wrote calls nothing, whatever it looks like (RES-8).
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
    """Sequence number of an invocation's first event; 1 if nothing is known of it."""
    record = await sessions.get_invocation(key, invocation_id)
    return record.start_seq if record else 1


async def _complete(
    sessions: SessionLog, key: SessionKey, stored: list[StoredEvent]
) -> list[StoredEvent]:
    """The last events of a session, with those before them if one of them is a rewind."""
    first = stored[0].seq if stored else 1
    if first > 1 and any(one.event.actions.rewind_before_invocation_id for one in stored):
        return await sessions.read_events(key, upto=first - 1) + stored
    return stored
