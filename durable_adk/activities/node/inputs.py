"""The values that nodes are given, read from the events that the loop refers to (D3)."""

from collections.abc import Callable, Sequence
from typing import Any

from google.genai import types

from durable_adk.calling.copies import own_copy
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.wire.agent_stack import ItemOutputs, NodeRef

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
    stored = _Stored(events, user_content, items)
    return own_copy(stored.value(ref))


class _Stored:
    """The values of references, without copies: of a list only the item is copied."""

    def __init__(
        self, events: Sequence[Event], user_content: types.Content | None, items: Items
    ) -> None:
        self._events, self._user_content, self._items = events, user_content, items

    def value(self, ref: NodeRef) -> Any:
        """Return the value of a reference."""
        if ref.parts is not None:
            return {name: self._given(part) for name, part in ref.parts.items()}
        if ref.of is not None:
            return self._items(ref.split_by or "")(self.value(ref.of))[ref.item or 0]
        if ref.listed is not None:
            return self._outputs(ref.listed)
        if ref.take == "message":
            return self._user_content
        if ref.event is None:
            return None
        # From the end, because a node is usually given what has just been stored.
        event = next((one for one in reversed(self._events) if one.id == ref.event), None)
        return _taken(ref, event)

    def _given(self, ref: NodeRef | None) -> Any:
        return None if ref is None else self.value(ref)

    def _outputs(self, outputs: ItemOutputs) -> list[Any]:
        found = {one.id: one for one in self._events if one.id.startswith(f"{outputs.prefix}.")}
        return [self._output(ref, found) for ref in outputs.refs()]

    def _output(self, ref: NodeRef | None, found: dict[str, Event]) -> Any:
        event = None if ref is None else found.get(ref.event or "")
        return self._given(ref) if ref is None or event is None else _taken(ref, event)


def _taken(ref: NodeRef, event: Event | None) -> Any:
    if event is None:
        raise AgentError(
            f"Event {ref.event!r}, whose output is a node's input, is in the session no more."
        )
    return event.text if ref.take == "text" else event.output
