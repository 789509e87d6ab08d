"""Calls without a response whose invocations have ended."""

import time
from functools import partial

from durable_adk.conversation.history import not_rewound
from durable_adk.conversation.tool_responses import closing_responses
from durable_adk.errors import SessionNotFoundError
from durable_adk.events.event import Event
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

REASON = "The run ended before this call was answered; it may have run in part."


async def open_calls(
    store: SessionLog, key: SessionKey, records: list[InvocationRecord]
) -> list[Case]:
    """Return a session's calls that have no response, and no open invocation that may produce one.

    Long-running calls of a completed invocation do not count: a later message may answer them
    (TOL-41).
    """
    if not all(record.sealed for record in records):
        return []
    events = [item.event for item in await store.read_events(key)]
    return [
        case(
            Kind.OPEN_CALL,
            key,
            f"{_names(response)} of event {response.id.removesuffix('.sealed')} has no response",
            invocation_id=response.invocation_id,
            fix=f"append a response that says so, as event {response.id}",
            remedy=partial(_append_response, store, key, response.id),
        )
        for response in _missing_responses(events)
    ]


def _missing_responses(events: list[Event]) -> list[Event]:
    """Return the responses to append, with ids derived from the events of their calls."""
    visible = not_rewound(events)
    long_running = {call_id for event in visible for call_id in event.long_running_tool_ids or ()}
    invocation_ids = {f"{event.id}.sealed": event.invocation_id for event in visible}
    responses = closing_responses(visible, REASON, long_running)
    for response in responses:
        response.invocation_id = invocation_ids[response.id]
    return responses


def _names(response: Event) -> str:
    names = [f"{item.name} ({item.id})" for item in response.get_function_responses()]
    return ("call " if len(names) == 1 else "calls ") + ", ".join(names)


async def _append_response(store: SessionLog, key: SessionKey, event_id: str) -> None:
    """Append a response, unless the call has been answered in the meantime."""
    session = await store.get_session(
        app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
    )
    if session is None:
        raise SessionNotFoundError(f"Session {key.session_id!r} has been deleted.")
    for response in _missing_responses(session.events):
        if response.id == event_id:
            response.timestamp = time.time()
            await store.append_event(session, response)
