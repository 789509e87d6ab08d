"""Several calls' responses as one event."""

from collections.abc import Sequence, Set as AbstractSet
from typing import Any

from google.genai import types

from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions


def merge_responses(events: Sequence[Event], *, event_id: str) -> Event:
    """One event with all responses, in the order of the calls (semantics FLW-43..45).

    Actions are merged in the same order: dicts key by key, anything else by the later call. The
    order of completion plays no part, so replay and every attempt give the same event.
    """
    actions: dict[str, Any] = {}
    for event in events:
        _merge_into(actions, event.actions.model_dump(exclude_none=True))
    first = events[0]
    parts = [part for event in events for part in event.parts]
    return Event(
        id=event_id,
        author=first.author,
        invocation_id=first.invocation_id,
        branch=first.branch,
        content=types.Content(role="user", parts=parts) if parts else None,
        actions=_with_answer(EventActions.read(actions), events),
        custom_metadata=_metadata(events),
    )


def _metadata(events: Sequence[Event]) -> dict[str, Any] | None:
    """The events' metadata; lists, such as those of settled calls, are joined."""
    merged: dict[str, Any] = {}
    for event in events:
        for key, value in (event.custom_metadata or {}).items():
            known: Any = merged.get(key)
            joined = isinstance(known, list) and isinstance(value, list)
            merged[key] = [*known, *value] if joined else value
    return merged or None


def _with_answer(actions: EventActions, events: Sequence[Event]) -> EventActions:
    """The later of two final answers stands as it is; merged they would be neither."""
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


def error_response(
    call_id: str, name: str, message: str, *, author: str, branch: str | None
) -> Event:
    """A response that tells the model its call failed; keeps every call answered (I9)."""
    response = types.FunctionResponse(id=call_id, name=name, response={"error": message})
    return Event(
        author=author,
        branch=branch,
        content=types.Content(role="user", parts=[types.Part(function_response=response)]),
    )


def requesting(response: Event) -> set[str]:
    """Ids of the calls whose responses say that an approval or a credential is needed first."""
    actions = response.actions
    return {*actions.requested_tool_confirmations, *actions.requested_auth_configs}


def unanswered(
    events: Sequence[Event], reason: str, known: AbstractSet[str] = frozenset()
) -> list[Event]:
    """Responses for every call that has none, one event per event that holds such calls.

    Without them the next turn's prompt would hold calls without responses, which providers refuse
    and which hide from the model that the call was made (TRAP-47).

    Args:
        events: What to look through.
        reason: What the responses say.
        known: Ids of calls that are answered elsewhere.
    """
    answered = known | {
        item.id
        for event in events
        for item in event.get_function_responses()
        if item.id not in requesting(event)  # that was a question, and the tool may run since
    }
    seals: list[Event] = []
    for event in events:
        responses = [
            error_response(
                call.id or "", call.name or "", reason, author=event.author, branch=event.branch
            )
            for call in event.get_function_calls()
            if call.id not in answered
        ]
        if responses:
            # Named after the event whose calls it answers, so a repeat makes the same one.
            seals.append(merge_responses(responses, event_id=f"{event.id}.sealed"))
    return seals
