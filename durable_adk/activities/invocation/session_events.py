"""Reads pages of a session's events, for clients without access to the session store."""

from temporalio import activity

from durable_adk.activities.dependencies import Dependencies
from durable_adk.retrying import Deadline
from durable_adk.sessions.records import StoredEvent
from durable_adk.wire.event_page import EventPage, PagedEvent, ReadSessionEventsStep

_BATCH = 50
"""Events read at once; the largest ones take 50 MB."""
_LOOK = 1.0
"""Seconds between checks of a waiting page whether its worker shuts down."""


async def read_session_events(deps: Dependencies, step: ReadSessionEventsStep) -> EventPage:
    """Read a page; if it is empty and the step waits, wait for an event or the invocation's end.

    Only a quarter of a worker's activities wait, see `Dependencies.max_in_place`; the others return
    an empty page at once.

    Raises:
        UnknownAppError: The app is not served here.
    """
    deps.registry.app(step.app)
    page = await _page(deps, step)
    if step.wait == 0 or deps.waiting_pages >= deps.max_in_place:
        return page
    deps.waiting_pages += 1
    try:
        deadline = Deadline(step.wait)
        while _is_empty(page) and deadline.left() > 0 and not activity.is_worker_shutdown():
            look = min(deadline.left(), _LOOK)
            await deps.sessions.wait_for_change(step.key, after=page.next, timeout=look)
            page = await _page(deps, step.model_copy(update={"after": page.next}))
    finally:
        deps.waiting_pages -= 1
    return page


def _is_empty(page: EventPage) -> bool:
    return not (page.events or page.complete)


async def _page(deps: Dependencies, step: ReadSessionEventsStep) -> EventPage:
    page, room = EventPage(next=step.after), step.max_bytes
    record = upto = None
    if step.invocation_id is not None:
        # Read before the events: once it has its last event, all events can be read.
        record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None:
        page.status, upto = record.status, record.end_seq
        page.next = max(page.next, record.start_seq - 1)
    while True:
        batch = await deps.sessions.read_events(step.key, after=page.next, upto=upto, limit=_BATCH)
        for stored in batch:
            if step.invocation_id in (None, stored.event.invocation_id):
                item, size = _item(stored, step.max_bytes)
                if len(page.events) == step.limit or (page.events and size > room):
                    page.more = True
                    return page
                page.events.append(item)
                room -= size
            page.next = stored.seq
        if len(batch) < _BATCH:
            page.complete = record is not None and record.sealed
            return page


def _item(stored: StoredEvent, max_bytes: int) -> tuple[PagedEvent, int]:
    """Return an event for a page, and its size there; for one that is too large only the size."""
    size = len(stored.event.to_json().encode())
    if size <= max_bytes:
        return PagedEvent(seq=stored.seq, event=stored.event), size
    return PagedEvent(seq=stored.seq, id=stored.event.id, size=size), 0
