"""A branch of a graph that ended before the graph's last node, without an error."""

import json
from collections.abc import Iterable
from typing import Any

from pydantic import Field, TypeAdapter

from durable_adk.events.event_actions import RouteValue
from durable_adk.json_values import JsonModel
from durable_adk.sessions.records import Note

MAX_UNFINISHED = 20
"""Maximum number of branches that are recorded of an invocation: a loop may leave many."""


MAX_ROUTE = 100
"""Maximum characters that are recorded of a route: the node's event has all of them."""


class UnfinishedBranch(JsonModel):
    """A node that ended by a route that no edge has, or a join that has never run (B-30)."""

    node: str
    """The path of the node's run, ``wf@1/r@2``, or of the join, ``wf@1/j``."""
    route: RouteValue | list[RouteValue] | None = None
    """What the node has emitted; None also for a join."""
    missing: list[str] = Field(default_factory=list[str])
    """The predecessors for which the join has waited."""

    @classmethod
    def of_node(cls, path: str, route: RouteValue | list[RouteValue] | None) -> "UnfinishedBranch":
        """Return the branch of a node whose route no edge has; a long route is cut."""
        shown = [_cut(one) for one in route] if isinstance(route, list) else _cut(route)
        return cls(node=path, route=shown)

    @property
    def reason(self) -> str:
        """Why the branch ended, for people."""
        if self.missing:
            return f"{self.node} never ran: {' and '.join(self.missing)} did not lead to it."
        given = "no route" if self.route is None else f"the route {json.dumps(self.route)}"
        return f"{self.node} emitted {given}, which no edge takes."


def _cut(route: Any) -> Any:
    return route[:MAX_ROUTE] if isinstance(route, str) else route


UNFINISHED_BRANCHES = TypeAdapter(list[UnfinishedBranch])
"""The body of an invocation's note about them."""


def unfinished_in(notes: Iterable[Note]) -> list[UnfinishedBranch]:
    """Return the branches in an invocation's notes of kind `records.UNFINISHED`."""
    return [one for note in notes for one in UNFINISHED_BRANCHES.validate_json(note.body)]
