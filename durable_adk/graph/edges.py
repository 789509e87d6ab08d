"""Edges as users write them: chains, fan-outs and routing maps (GR-14 to GR-18)."""

import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias, cast

from durable_adk.errors import WorkflowConfigurationError
from durable_adk.events.event_actions import RouteValue
from durable_adk.graph.base_node import BaseNode, Edge
from durable_adk.graph.node import NodeLike, build_node, is_node_like

FanOut: TypeAlias = tuple[NodeLike, ...]
RoutingMap: TypeAlias = dict[RouteValue, NodeLike | FanOut]
EdgeItem: TypeAlias = Edge | tuple[NodeLike | FanOut | RoutingMap, ...]
"""An edge, or a chain: consecutive elements are joined by edges, all to all."""


class _Nodes:
    """The nodes made of the objects in one list of edges: one per object."""

    def __init__(self) -> None:
        self._made: dict[Any, BaseNode] = {}

    def of(self, node_like: Any) -> BaseNode:
        key = _identity(node_like)
        if key not in self._made:
            self._made[key] = build_node(node_like)
        return self._made[key]


def parse_edges(items: list[Any]) -> list[Edge]:
    """Return the edges of a list of edges and chains, in its order.

    The same object is the same node wherever it is in the list.

    Raises:
        WorkflowConfigurationError: An item is neither an edge nor a chain, or something in it
            cannot be a node; the message names its place.
    """
    nodes = _Nodes()
    return [edge for place, item in enumerate(items) for edge in _edges(item, place, nodes)]


def _edges(item: Any, place: int, nodes: _Nodes) -> Iterator[Edge]:
    if isinstance(item, Edge):
        yield Edge(nodes.of(item.from_node), nodes.of(item.to_node), item.route)
        return
    if not _is_listed(item):
        raise WorkflowConfigurationError(
            f"Invalid edge type: {type(item)} at edges[{place}]; write an Edge or a tuple of nodes."
        )
    chain = list(item)
    _check_chain(chain, place)
    for left, right in pairwise(chain):
        sources = [nodes.of(one) for one in _elements(left)]
        if isinstance(left, dict):
            # Several routes may lead to one node, which has one edge to the next element.
            sources = list({id(source): source for source in sources}.values())
        for route, element in _routed(right):
            targets = [nodes.of(one) for one in _elements(element)]
            yield from (Edge(one, target, route) for one in sources for target in targets)


def _routed(element: Any) -> list[tuple[RouteValue | None, Any]]:
    """Return what an element of a chain has, by route."""
    if isinstance(element, dict):
        return list(cast("RoutingMap", element).items())
    return [(None, element)]


def _check_chain(chain: list[Any], place: int) -> None:
    where = f"edges[{place}]"
    if len(chain) < 2:  # noqa: PLR2004 - an edge has two ends
        raise WorkflowConfigurationError(f"{where}: a chain needs at least two elements.")
    if isinstance(chain[0], dict):
        raise WorkflowConfigurationError(f"{where}: a routing map needs an element before it.")
    for left, right in pairwise(chain):
        if isinstance(left, dict) and isinstance(right, dict):
            raise WorkflowConfigurationError(
                "Consecutive routing maps are not allowed in a chain. Split them into separate "
                "edge items."
            )
    for index, element in enumerate(chain):
        _check_element(element, f"{where}[{index}]")


def _check_element(element: Any, where: str) -> None:
    if not isinstance(element, dict):
        _check_targets(element, where)
        return
    if not element:
        raise WorkflowConfigurationError(
            "Routing map must not be empty. Provide at least one route -> node mapping."
        )
    for key, target in cast("dict[Any, Any]", element).items():
        if not isinstance(key, bool | int | str):
            raise WorkflowConfigurationError(
                f"Invalid routing map key: {key!r} (type {type(key).__name__}) at {where}. Keys "
                "must be RouteValue (str, int, or bool)."
            )
        _check_targets(target, f"{where}[{key!r}]")


def _check_targets(element: Any, where: str) -> None:
    listed = _elements(element)
    if not listed:
        raise WorkflowConfigurationError(f"{where}: a fan-out needs at least one node.")
    for one in listed:
        if not is_node_like(one):
            raise WorkflowConfigurationError(
                f"{where}: {one!r} (type {type(one).__name__}) is no node. Values must be NodeLike "
                "(BaseNode, BaseAgent, BaseTool, callable, or 'START')."
            )


def _elements(element: Any) -> list[Any]:
    """Return the nodes of an element of a chain."""
    if isinstance(element, dict):
        targets = cast("RoutingMap", element).values()
        return [one for target in targets for one in _elements(target)]
    return list(element) if _is_listed(element) else [element]


def _is_listed(value: Any) -> bool:
    return isinstance(value, tuple | list)


def _identity(node_like: Any) -> Any:
    """Return the key of an object; a bound method is another object each time it is read."""
    if inspect.ismethod(node_like):
        return id(node_like.__self__), id(node_like.__func__)
    return "START" if isinstance(node_like, str) else id(node_like)
