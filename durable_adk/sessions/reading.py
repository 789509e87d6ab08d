"""Reading what is needed of sessions and invocations, and in pieces."""

from collections.abc import AsyncGenerator

from durable_adk.sessions.invocation_records import InvocationRecords
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey

PAGE = 500
"""Invocations that are in memory at a time where all are looked through."""


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
