"""The calls of a session that wait for an answer, of invocations that can still take it."""

from collections.abc import Mapping

from durable_adk.conversation.pending_calls import PendingCall, pending_calls
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.reading import all_invocations, read_from
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey


async def session_pending_calls(sessions: BaseSessionService, key: SessionKey) -> list[PendingCall]:
    """Those of all invocations of the session that run or are paused."""
    records = {
        record.invocation_id: record
        for status in (Status.PAUSED, Status.RUNNING)
        async for _, record in all_invocations(sessions, **key._asdict(), status=status)
    }
    return await pending_calls_of(sessions, key, records)


async def pending_calls_of(
    sessions: BaseSessionService, key: SessionKey, records: Mapping[str, InvocationRecord]
) -> list[PendingCall]:
    """Those of some open invocations, by their ids; no event before these began is read."""
    if not records:
        return []
    first = min(record.start_seq for record in records.values())
    stored = await read_from(sessions, key, first)
    calls = pending_calls(item.event for item in stored)
    return [call for call in calls if call.invocation_id in records]
