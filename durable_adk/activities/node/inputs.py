"""The values that nodes are given, read from the events that the loop refers to (D3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.genai import types

from durable_adk.calling.copies import own_copy
from durable_adk.errors import AgentError
from durable_adk.events.event import Event
from durable_adk.wire.agent_stack import NodeRef

Items = Callable[[str], Callable[[Any], list[Any]]]
"""Returns `ParallelWorker.items` of the worker at a path."""


@dataclass(frozen=True, kw_only=True)
class NodeValues:
    """Where the values come from."""

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
            AgentError: The session does not have the event any more.
        """
        if ref.parts is not None:
            return {name: part and self.of(part) for name, part in ref.parts.items()}
        if ref.of is not None:
            return self.items(ref.split_by or "")(self.of(ref.of))[ref.item or 0]
        if ref.listed is not None:
            return [one and self.of(one) for one in ref.listed]
        if ref.take == "message":
            return own_copy(self.user_content)
        return None if ref.event is None else self._of_event(ref, ref.event)

    def _of_event(self, ref: NodeRef, name: str) -> Any:
        if ref.take == "given":
            return own_copy(self.given[name])
        # From the end, because a node is usually given what has just been stored.
        event = next((one for one in reversed(self.events) if one.id == name), None)
        if event is None:
            raise AgentError(
                f"Event {name!r}, whose output is a node's input, is in the session no more."
            )
        return event.text if ref.take == "text" else own_copy(event.output)
