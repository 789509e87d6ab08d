"""Responses to function calls, as events: merged, failed, or added when a run ends early.

Also the event of the error that ends it.
"""

from collections.abc import Sequence, Set as AbstractSet
from copy import deepcopy
from typing import Any

from google.genai import types

from durable_adk.conversation.pending_calls import FINAL_RESPONSES
from durable_adk.errors import DurableAdkError, InvocationCancelledError, describe
from durable_adk.events.event import Event, NodeInfo
from durable_adk.events.event_actions import EventActions
from durable_adk.sessions.state_merge import Base, together
from durable_adk.wire.graph.dynamic import OpenCall

ABORTED = "INVOCATION_ABORTED"
"""The error code of a run that was cancelled."""


def merge_responses(events: Sequence[Event], *, event_id: str) -> Event:
    """Return one event with all responses, in the order of the calls (FLW-43..45).

    Actions are merged in the same order: state changes by the rules of `sessions.state_merge`,
    other dicts key by key, and for any other value the later call's counts. The order of completion
    is irrelevant, so a replay and every attempt produce the same event.

    Raises:
        StateConflictError: Two calls have changed the same state value differently.
    """
    actions: dict[str, Any] = {}
    delta: dict[str, Any] = {}
    read: dict[str, Base] = {}
    for event in events:
        mine = deepcopy(event.actions)
        delta, read = together(delta, read, mine.state_delta, mine.state_read)
        _merge_into(actions, mine.model_dump(exclude_none=True))
    actions |= {"state_delta": delta, "state_read": read}
    first = events[0]
    parts = [part for event in events for part in event.parts]
    # Of an agent's task that a call has finished.
    ended = next((event for event in events if event.output is not None), None)
    path = NodeInfo(path=first.node_info.path)
    return Event(
        id=event_id,
        author=first.author,
        invocation_id=first.invocation_id,
        branch=first.branch,
        content=types.Content(role="user", parts=parts) if parts else None,
        actions=_with_model_response(EventActions.read(actions), events),
        custom_metadata=_metadata(events),
        output=ended and ended.output,
        node_info=ended.node_info if ended else path,
        isolation_scope=first.isolation_scope,
    )


def _metadata(events: Sequence[Event]) -> dict[str, Any] | None:
    """Return the merged metadata; lists, such as the ids of final responses, are concatenated."""
    merged: dict[str, Any] = {}
    for event in events:
        for key, value in (event.custom_metadata or {}).items():
            known: Any = merged.get(key)
            joined = isinstance(known, list) and isinstance(value, list)
            merged[key] = [*known, *value] if joined else value
    return merged or None


def _with_model_response(actions: EventActions, events: Sequence[Event]) -> EventActions:
    """Keep only the last `set_model_response`: a merge of two outputs would match neither."""
    for event in events:
        if event.actions.set_model_response is not None:
            actions.set_model_response = event.actions.set_model_response
    return actions


def _merge_into(target: dict[str, Any], source: dict[str, Any]) -> None:
    for key, value in source.items():
        current = target.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            _merge_into(current, value)  # pyright: ignore[reportUnknownArgumentType]: JSON objects
        else:
            target[key] = value


def failure_text(tool: str, detail: dict[str, Any]) -> str:
    """Return the response that the model receives for a failed call.

    Args:
        tool: The tool's name.
        detail: `errors.as_detail` of the error.
    """
    message = str(detail.get("message", ""))
    if detail.get("user") is None:
        return message or "The tool gave no result."
    return f"Tool {tool!r} raised {detail.get('type')}: {message}"


def error_response(
    call_id: str, name: str, message: str, *, author: str, branch: str | None
) -> Event:
    """Return a response that reports to the model that its call failed (I9)."""
    response = types.FunctionResponse(id=call_id, name=name, response={"error": message})
    return Event(
        author=author,
        branch=branch,
        content=types.Content(role="user", parts=[types.Part(function_response=response)]),
    )


def final_response(call: OpenCall, message: str, *, branch: str | None, name: str) -> Event:
    """Return the response that closes a call which will have no answer.

    Args:
        call: The call.
        message: What the model is to know.
        branch: The branch of the event.
        name: The event's id.
    """
    event = error_response(call.call_id, call.name, message, author=call.author, branch=branch)
    event.id, event.custom_metadata = name, {FINAL_RESPONSES: True}
    return event


def calls_needing_user(response: Event) -> set[str]:
    """Return the ids of the calls that need a confirmation or a credential before they can run."""
    actions = response.actions
    return {*actions.requested_tool_confirmations, *actions.requested_auth_configs}


def closing_responses(
    events: Sequence[Event], reason: str, known: AbstractSet[str] = frozenset()
) -> list[Event]:
    """Return responses for all calls without one, one event per event with such calls.

    Without them the next prompt would contain calls without responses. Providers reject such a
    prompt, and leaving the calls out would hide from the model that they were made (TRAP-47).

    Args:
        events: The events to search.
        reason: Text of the responses.
        known: Ids of calls that have a response elsewhere.
    """
    answered = known | {
        item.id
        for event in events
        for item in event.get_function_responses()
        # A response that requests a confirmation is not final: the tool may have run since.
        if item.id not in calls_needing_user(event)
    }
    closing: list[Event] = []
    for event in events:
        responses = [
            error_response(
                call.id or "", call.name or "", reason, author=event.author, branch=event.branch
            )
            for call in event.get_function_calls()
            if call.id not in answered
        ]
        if responses:
            # The id is derived from the event with the calls, so a retry makes the same event.
            closing.append(merge_responses(responses, event_id=f"{event.id}.sealed"))
    return closing


def error_event(error: DurableAdkError, *, invocation_id: str, author: str) -> Event:
    """Return the event of the error that ends a run (RUN-8, CAN-2)."""
    code, message = describe(error)
    return Event(
        id=f"{invocation_id}.end",
        invocation_id=invocation_id,
        author=author,
        error_code=ABORTED if isinstance(error, InvocationCancelledError) else code,
        error_message=message,
    )
