"""The values that nodes are given, read from the events that the loop refers to (D3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.genai import types
from pydantic import ValidationError

from durable_adk.calling.copies import own_copy
from durable_adk.errors import AgentError, wrapped
from durable_adk.events.event import Event
from durable_adk.graph.data import validated
from durable_adk.wire.graph.node_run import ItemOutputs, NodeRef

Items = Callable[[str], Callable[[Any], list[Any]]]
"""Returns `ParallelWorker.items` of the worker at a path."""


@dataclass(frozen=True, kw_only=True)
class NodeValues:
    """Where the values come from."""

    input_schema: Callable[[str], Any]
    """Returns the `input_schema` of the graph at a path."""

    events: Sequence[Event]
    """The session's events."""
    user_content: types.Content | None
    """The user's message to the invocation."""
    items: Items
    """Returns what splits a list of which a node is given an item."""
    given: Mapping[str, Any]
    """What code has given the nodes that it has called; see `NodeRef.take`."""

    def of(self, ref: NodeRef) -> Any:
        """Return a copy of the value, which the node may change (B-32).

        Args:
            ref: The reference.

        Raises:
            AgentError: The session does not have the event any more, or the value does not fit the
                `input_schema` of a graph.
        """
        return own_copy(self._value(ref))

    def _value(self, ref: NodeRef) -> Any:
        """Return the value without a copy: of a list only the item is copied."""
        value = self._given(ref)
        try:
            for path in ref.read_by:
                value = validated(self.input_schema(path), value)
        except ValidationError as unfit:
            raise wrapped(AgentError, unfit) from unfit
        return value

    def _given(self, ref: NodeRef) -> Any:
        if ref.parts is not None:
            return {name: part and self._value(part) for name, part in ref.parts.items()}
        if ref.of is not None:
            return self.items(ref.split_by or "")(self._value(ref.of))[ref.item or 0]
        if ref.listed is not None:
            return self._outputs(ref.listed)
        if ref.take == "message":
            return self.user_content
        return None if ref.event is None else self._of_event(ref, ref.event)

    def _of_event(self, ref: NodeRef, name: str) -> Any:
        if ref.take == "given":
            return self.given[name]
        # From the end, because a node is usually given what has just been stored.
        return _taken(ref, next((one for one in reversed(self.events) if one.id == name), None))

    def _outputs(self, outputs: ItemOutputs) -> list[Any]:
        found = {one.id: one for one in self.events if one.id.startswith(f"{outputs.prefix}.")}
        return [self._output(ref, found) for ref in outputs.refs()]

    def _output(self, ref: NodeRef | None, found: dict[str, Event]) -> Any:
        event = None if ref is None else found.get(ref.event or "")
        return ref and self._value(ref) if ref is None or event is None else _taken(ref, event)


def _taken(ref: NodeRef, event: Event | None) -> Any:
    if event is None:
        raise AgentError(
            f"Event {ref.event!r}, whose output is a node's input, is in the session no more."
        )
    return _taken_of(event, ref)


def _taken_of(event: Event, ref: NodeRef) -> Any:
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
