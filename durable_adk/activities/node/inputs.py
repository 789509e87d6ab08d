"""The values that nodes are given, read from the events that the loop refers to (D3)."""

from collections.abc import Callable, Sequence
from typing import Any

from google.genai import types

from durable_adk.calling.copies import own_copy
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.wire.agent_stack import NodeRef

Items = Callable[[str], Callable[[Any], list[Any]]]
"""Returns `ParallelWorker.items` of the worker at a path."""


def value_of(
    ref: NodeRef,
    events: Sequence[Event],
    user_content: types.Content | None,
    items: Items,
) -> Any:
    """Return a copy of the value, which the node may change (B-32).

    Args:
        ref: The reference.
        events: The session's events.
        user_content: The user's message to the invocation.
        items: Returns what splits a list of which a node is given an item.

    Raises:
        AgentError: The session does not have the event any more.
    """
    if ref.parts is not None:
        return {
            name: None if part is None else value_of(part, events, user_content, items)
            for name, part in ref.parts.items()
        }
    if ref.of is not None:
        whole = value_of(ref.of, events, user_content, items)
        return items(ref.split_by or "")(whole)[ref.item or 0]
    if ref.listed is not None:
        return [
            None if one is None else value_of(one, events, user_content, items)
            for one in ref.listed
        ]
    if ref.take == "message":
        return own_copy(user_content)
    if ref.event is None:
        return None
    # From the end, because a node is usually given what has just been stored.
    event = next((one for one in reversed(events) if one.id == ref.event), None)
    if event is None:
        raise AgentError(
            f"Event {ref.event!r}, whose output is a node's input, is in the session no more."
        )
    return own_copy(_taken(event, ref))


def _taken(event: Event, ref: NodeRef) -> Any:
    """Return what of an event is the value."""
    match ref.take:
        case "arguments":
            return _arguments(event, ref)
        case "text":
            return event.text
        case _:
            return event.output


def _arguments(event: Event, ref: NodeRef) -> Any:
    """Return what a model's call gives the node that it runs."""
    args = ref.changed
    if args is None:
        calls = (call.args for call in event.get_function_calls() if call.id == ref.call)
        args = next(calls, None) or {}
    return args if ref.key is None else args.get(ref.key)
