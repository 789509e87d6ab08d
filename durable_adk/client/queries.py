"""Invocations, their pending calls and their failed attempts, read from the session store alone.

Imports no agent code and does not use Temporal.
"""

import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from heapq import merge

from durable_adk.client.feed import paged
from durable_adk.conversation.pending_calls import PendingCall, pending_calls, tracking_copy
from durable_adk.sessions.call_attempt import CallAttempt
from durable_adk.sessions.log.storage import InvocationPosition
from durable_adk.sessions.records import (
    ATTEMPT,
    OPEN,
    UNFINISHED,
    InvocationRecord,
    Status,
    StoredEvent,
)
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.unfinished_branch import UnfinishedBranch, unfinished_in

_WINDOWS = (3600.0, 86400.0, 30 * 86400.0)
"""Windows for reading recent sessions, in seconds before now."""


@dataclass(frozen=True, kw_only=True)
class InvocationFilter:
    """Which sessions to search; None: all."""

    app: str | None = None
    user: str | None = None
    session: str | None = None


@dataclass(frozen=True, kw_only=True)
class LocatedCall:
    """A pending call, with its session and its invocation."""

    key: SessionKey
    record: InvocationRecord
    call: PendingCall
    message: str
    """The text of the invocation's first message."""


async def find_invocations(
    sessions: SessionLog, where: InvocationFilter, *, statuses: Collection[Status] = ()
) -> AsyncGenerator[tuple[SessionKey, InvocationRecord]]:
    """Yield all invocations of the matching sessions, however many there are.

    Args:
        sessions: The store.
        where: Which sessions.
        statuses: Only invocations with one of these; empty: all. One that changes between them
            meanwhile is not missed, as it could be by a search for each status.
    """
    for name in [where.app] if where.app else await sessions.list_apps():
        found = sessions.all_invocations(
            app_name=name, user_id=where.user, session_id=where.session, statuses=statuses
        )
        async for one in found:
            yield one


async def invocations_by_time(
    sessions: SessionLog,
    apps: Collection[str],
    where: InvocationFilter,
    *,
    statuses: Collection[Status] = (),
    beyond: InvocationPosition | None = None,
    oldest_first: bool = False,
    size: int = 50,
) -> AsyncGenerator[tuple[SessionKey, InvocationRecord]]:
    """Yield invocations of several apps by the time of their status, newest first.

    Args:
        sessions: The store.
        apps: The names of the apps; `where.app` is ignored.
        where: Which users and sessions.
        statuses: Only invocations with one of these; empty: all.
        beyond: The position to continue from.
        oldest_first: Yield the oldest first. An invocation that changes meanwhile is not missed.
        size: Number of invocations per page.
    """
    while True:
        pages = [
            await sessions.invocations_by_time(
                app_name=name,
                user_id=where.user,
                session_id=where.session,
                statuses=statuses,
                limit=size,
                beyond=beyond,
                oldest_first=oldest_first,
            )
            for name in apps
        ]
        page = list(merge(*pages, key=_position, reverse=not oldest_first))[:size]
        for item in page:
            yield item
        if len(page) < size:
            return
        beyond = _position(page[-1])


def _position(item: tuple[SessionKey, InvocationRecord]) -> InvocationPosition:
    return InvocationPosition.of(*item)


async def recent_sessions(sessions: SessionLog, where: InvocationFilter) -> AsyncGenerator[Session]:
    """Yield the matching sessions, without events, most recently updated first.

    Stores list sessions from the oldest on, so they are read by windows of time: a caller that
    stops early does not read all of a large store.
    """
    until, names = None, [where.app] if where.app else await sessions.list_apps()
    for window in (*_WINDOWS, None):
        since = None if window is None else time.time() - window
        found = [
            one
            for name in names
            for one in await _updated(sessions, name, where.user, since)
            if where.session in (None, one.id) and (until is None or one.last_update_time < until)
        ]
        for one in sorted(found, key=lambda one: one.last_update_time, reverse=True):
            yield one
        until = since


async def _updated(
    sessions: SessionLog, app: str, user: str | None, since: float | None
) -> list[Session]:
    listed = await sessions.list_sessions(app_name=app, user_id=user, updated_since=since)
    return listed.sessions


async def find_pending_calls(sessions: SessionLog, where: InvocationFilter) -> list[LocatedCall]:
    """Return the pending calls of paused invocations, and of ones whose other branches run.

    The oldest call is first.
    """
    found: dict[SessionKey, dict[str, InvocationRecord]] = {}
    async for key, record in find_invocations(sessions, where, statuses=OPEN):
        found.setdefault(key, {})[record.invocation_id] = record
    calls = [
        call
        for key, records in found.items()
        for call in await pending_calls_in(sessions, key, records)
    ]
    return sorted(calls, key=lambda item: item.call.requested_at)


async def pending_calls_of(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> list[LocatedCall]:
    """Return the calls for which an invocation has paused; [] if it is not paused."""
    record = await sessions.get_invocation(key, invocation_id)
    if record is None or record.status is not Status.PAUSED:
        return []
    return await pending_calls_in(sessions, key, {invocation_id: record})


async def pending_calls_in(
    sessions: SessionLog, key: SessionKey, records: Mapping[str, InvocationRecord]
) -> list[LocatedCall]:
    """Return pending calls of open invocations, reading events only from the first of these on."""
    first = min(record.start_seq for record in records.values())
    stored = await read_calls(sessions, key, first)
    starts = {record.start_seq for record in records.values()}
    texts = {item.seq: item.event.text for item in stored if item.seq in starts}
    return [
        LocatedCall(key=key, record=record, call=call, message=texts.get(record.start_seq, ""))
        for call in pending_calls(item.event for item in stored)
        if (record := records.get(call.invocation_id))
    ]


async def read_calls(sessions: SessionLog, key: SessionKey, first: int) -> list[StoredEvent]:
    """Read the events from `first` on, with only the parts that show which calls are pending.

    They are read in pages, so that only one page of a large session is in memory completely. Reads
    all events if one of them is a rewind, which may refer to earlier ones.
    """
    async with aclosing(paged(partial(sessions.read_page, key), first - 1)) as stored:
        found = [one.model_copy(update={"event": tracking_copy(one.event)}) async for one in stored]
    if first > 1 and any(one.event.actions.rewind_before_invocation_id for one in found):
        return await read_calls(sessions, key, 1)
    return found


async def read_attempts(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> list[CallAttempt]:
    """Return the attempts at an invocation's calls that failed, were cancelled or were lost.

    They are in order, and the calls are those of models and tools. The records outlive the
    invocation. Successful attempts have none: their tokens are on their events, as
    `Event.usage_metadata`.
    """
    notes = await sessions.read_notes(key, invocation_id=invocation_id, kind=ATTEMPT)
    found = [CallAttempt.model_validate_json(note.body, extra="ignore") for note in notes]
    return sorted(found, key=_order)


async def read_unfinished(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> list[UnfinishedBranch]:
    """Return the branches of graphs that ended before the last node, of an ended invocation."""
    return unfinished_in(
        await sessions.read_notes(key, invocation_id=invocation_id, kind=UNFINISHED)
    )


def _order(attempt: CallAttempt) -> tuple[list[tuple[int, str]], str, int]:
    """Return a key that orders event ids by their numbers: ``e.10`` comes after ``e.9``."""
    parts = attempt.event_id.split(".")
    numbers = [(int(part), "") if part.isdigit() else (0, part) for part in parts]
    return numbers, attempt.call_id, attempt.attempt
