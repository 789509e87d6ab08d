"""Routes: which edges a node's end fires."""

from collections.abc import Iterable
from typing import Protocol, TypeAlias, TypeVar

from durable_adk.events.event_actions import RouteValue

Route: TypeAlias = RouteValue | list[RouteValue]
"""What an edge is named by, or a node emits; of a list, any value counts."""
DEFAULT_ROUTE = "__DEFAULT__"
"""The route of edges that fire if no edge with another route does (GR-4)."""


class Routed(Protocol):
    """An edge, declared or recorded."""

    @property
    def route(self) -> Route | None:
        """The edge's route; None: it always fires."""
        ...


EdgeT = TypeVar("EdgeT", bound=Routed)


def fired(edges: Iterable[EdgeT], emitted: Route | None) -> list[EdgeT]:
    """Return the edges that fire when their node has ended, in their order (GR-67).

    Edges without route always fire. Edges with a route fire if the node has emitted it, and those
    with `DEFAULT_ROUTE` if no other route matches. False and 0 are routes and equal, as True and 1;
    an empty text or list is no route.

    Args:
        edges: The outgoing edges of one node.
        emitted: The route, or the routes, that the node has emitted.
    """
    listed = list(edges)
    wanted = [value for value in route_values(emitted) if value != ""]  # 0 is a route
    matched = [_matches(edge.route, wanted) for edge in listed]
    return [
        edge
        for edge, matches in zip(listed, matched, strict=True)
        if matches or edge.route is None or (edge.route == DEFAULT_ROUTE and not any(matched))
    ]


def route_values(route: Route | None) -> list[RouteValue]:
    """Return the values of a route; none for None."""
    if route is None:
        return []
    return route if isinstance(route, list) else [route]


def _matches(route: Route | None, wanted: list[RouteValue]) -> bool:
    return route != DEFAULT_ROUTE and any(value in wanted for value in route_values(route))
