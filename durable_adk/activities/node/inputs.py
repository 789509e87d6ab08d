"""The values that nodes are given, read from the events that the loop refers to (D3)."""

from collections.abc import Callable, Sequence
from typing import Any

from google.genai import types

from durable_adk.calling.copies import own_copy
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.wire.agent_stack import NodeRef

Items = Callable[[Any], list[Any]]
"""`ParallelWorker.items`."""


def value_of(
    ref: NodeRef,
    events: Sequence[Event],
    user_content: types.Content | None,
    items: Items | None = None,
) -> Any:
    """Return a copy of the value, which the node may change (B-32).

    Args:
        ref: The reference.
        events: The session's events.
        user_content: The user's message to the invocation.
        items: Returns the items of a list that the node is given one of.

    Raises:
        AgentError: The session does not have the event any more.
    """
    if ref.parts is not None:
        return {
            name: None if part is None else value_of(part, events, user_content)
            for name, part in ref.parts.items()
        }
    if ref.of is not None:
        whole = value_of(ref.of, events, user_content)
        listed = whole if items is None else items(whole)
        return listed[ref.item or 0]
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
    return event.text if ref.take == "text" else own_copy(event.output)


def outputs_at(paths: Sequence[str], events: Sequence[Event]) -> list[Any]:
    """Return the outputs of the runs at some paths; None for a run without one."""
    wanted, found = set(paths), dict[str, Any]()
    for event in events:
        for path in wanted.intersection(event.node_info.output_for or ()):
            found[path] = event.text if event.output is None else own_copy(event.output)
    return [found.get(path) for path in paths]
