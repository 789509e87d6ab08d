"""Calls that nobody will answer any more."""

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
    """The calls of a session that have no response, unless an invocation may yet give one.

    Long-running calls of an invocation that has completed are none: a later message may answer
    them (TOL-41).
    """
    if not all(record.sealed for record in records):
        return []
    events = [item.event for item in await store.read_events(key)]
    return [
        case(
            Kind.OPEN_CALL,
            key,
            f"{_names(seal)} of event {seal.id.removesuffix('.sealed')} has no response",
            invocation_id=seal.invocation_id,
            fix=f"append a response that says so, as event {seal.id}",
            remedy=partial(_seal, store, key, seal.id),
        )
        for seal in _seals(events)
    ]


def _seals(events: list[Event]) -> list[Event]:
    """The responses to append, named after the events whose calls they answer."""
    visible = not_rewound(events)
    late = {call_id for event in visible for call_id in event.long_running_tool_ids or ()}
    owners = {f"{event.id}.sealed": event.invocation_id for event in visible}
    seals = closing_responses(visible, REASON, late)
    for seal in seals:
        seal.invocation_id = owners[seal.id]
    return seals


def _names(seal: Event) -> str:
    names = [f"{item.name} ({item.id})" for item in seal.get_function_responses()]
    return ("call " if len(names) == 1 else "calls ") + ", ".join(names)


async def _seal(store: SessionLog, key: SessionKey, event_id: str) -> None:
    """Append a response; looked up again, as somebody may have answered meanwhile."""
    session = await store.get_session(
        app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
    )
    if session is None:
        raise SessionNotFoundError(f"There is no session {key.session_id!r} any more.")
    for seal in _seals(session.events):
        if seal.id == event_id:
            seal.timestamp = time.time()
            await store.append_event(session, seal)
