"""The checks of a graph's form, with ADK's messages, and warnings."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from durable_adk.errors import GraphValidationError
from durable_adk.events.event_actions import RouteValue
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.routes import DEFAULT_ROUTE, route_values


def validate_graph(nodes: Sequence[BaseNode], edges: Sequence[Edge]) -> None:
    """Check a graph in the order of GR-25 to GR-35.

    Raises:
        GraphValidationError: It is not well formed; the message says why.
    """
    _check_names(nodes)
    for check in _CHECKS:
        check(edges)
    for node in nodes:
        node.validate_outgoing_edges([edge for edge in edges if edge.from_node is node])


def _failed(text: str) -> GraphValidationError:
    return GraphValidationError(f"Graph validation failed. {text}")


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.from_node.name, edge.to_node.name


def _check_names(nodes: Sequence[BaseNode]) -> None:
    counts = Counter(node.name for node in nodes)
    if twice := sorted(name for name, number in counts.items() if number > 1):
        raise _failed(
            f"Duplicate node names found: {twice}. This means multiple distinct node objects have "
            "the same name. If you intended to reuse the same node, ensure you pass the exact same "
            "object instance. If you intended to have distinct nodes, ensure they have unique "
            "names."
        )
    if START.name not in counts:
        raise _failed(f"START node (name: '{START.name}') not found in graph nodes.")


def _check_start_edges(edges: Sequence[Edge]) -> None:
    for edge in edges:
        if edge.from_node is START and edge.route is not None:
            raise _failed(
                "Edges from START must not have routes "
                f"(edge to {edge.to_node.name} has route {edge.route})."
            )


def _check_reachable(edges: Sequence[Edge]) -> None:
    following: dict[str, list[str]] = {}
    for source, target in map(_ends, edges):
        following.setdefault(source, []).append(target)
        following.setdefault(target, [])
    reached = set[str]()
    waiting = [START.name]
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached.add(name)
            waiting += following.get(name, [])
    if lost := sorted(following.keys() - reached):
        raise _failed(f"The following nodes are unreachable from START: {lost}")
    if any(edge.to_node is START for edge in edges):
        raise _failed("START node must not have incoming edges.")


def _check_duplicates(edges: Sequence[Edge]) -> None:
    seen: dict[tuple[str, str], list[RouteValue]] = {}
    for edge in edges:
        ends, routes = _ends(edge), route_values(edge.route)
        known = seen.get(ends)
        if known is not None and (not known or not routes or any(one in known for one in routes)):
            raise _failed(f"Duplicate edge found: from={ends[0]}, to={ends[1]}")
        seen[ends] = [*(known or ()), *routes]


def _check_default_routes(edges: Sequence[Edge]) -> None:
    for edge in edges:
        if isinstance(edge.route, list) and DEFAULT_ROUTE in edge.route:
            source, target = _ends(edge)
            raise _failed(
                "DEFAULT_ROUTE cannot be combined with other routes in a list "
                f"(edge from={source}, to={target}). Use a separate edge for DEFAULT_ROUTE."
            )


def _check_cycles(edges: Sequence[Edge]) -> None:
    before: dict[str, list[str]] = {}
    for edge in edges:
        if edge.route is None:
            source, target = _ends(edge)
            before.setdefault(target, []).append(source)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise _failed(
            f"Unconditional cycle detected: {' -> '.join(cycle)}. Cycles must include at least one "
            "conditional (routed) edge to avoid infinite loops."
        ) from None


def _check_schemas(edges: Sequence[Edge]) -> None:
    for edge in edges:
        source, target = edge.from_node, edge.to_node
        given, taken = source.output_schema, target.input_schema
        if given and taken and given != taken:
            raise _failed(
                f"Schema mismatch on edge {source.name} -> {target.name}. Output schema {given} "
                f"does not match input schema {taken}."
            )


def _check_predecessors(edges: Sequence[Edge]) -> None:
    for edge in edges:
        edge.to_node.validate_predecessor(edge.from_node)


_CHECKS: tuple[Callable[[Sequence[Edge]], None], ...] = (
    _check_start_edges,
    _check_reachable,
    _check_duplicates,
    _check_default_routes,
    _check_cycles,
    _check_schemas,
    _check_predecessors,
)


def graph_warnings(nodes: Sequence[BaseNode], edges: Sequence[Edge]) -> list[str]:
    """Return what of a well-formed graph is probably a mistake (GR-42)."""
    conditions = _conditions(edges)
    outgoing = {node.name: [edge for edge in edges if edge.from_node is node] for node in nodes}
    found = list(_starved_joins(nodes, edges, conditions))
    found += _several_outputs([name for name, after in outgoing.items() if not after], conditions)
    for node in nodes:
        after = outgoing[node.name]
        if node.never_ends and after:
            found.append(
                f"Node {node.name!r} is a chat agent, which never ends, so that "
                f"{after[0].to_node.name!r} behind it never runs."
            )
        found += _doubtful_routes(node.name, after)
    return found


Condition = tuple[str, tuple[RouteValue, ...]]
"""A node, and the routes of which it must emit one."""
Conditions = dict[str, frozenset[Condition]]


def _condition(edge: Edge) -> frozenset[Condition]:
    routes = tuple(route_values(edge.route))
    return frozenset({(edge.from_node.name, routes)}) if edge.route is not None else frozenset()


def _conditions(edges: Sequence[Edge]) -> Conditions:
    """Return what each node's run depends on, whichever way leads to it."""
    known: Conditions = {START.name: frozenset()}
    changed = True
    while changed:  # the sets only shrink
        changed = False
        for edge in edges:
            source, target = _ends(edge)
            if source not in known:
                continue
            way = known[source] | _condition(edge)
            both = known[target] & way if target in known else way
            changed |= known.get(target) != both
            known[target] = both
    return known


def _starved_joins(
    nodes: Sequence[BaseNode], edges: Sequence[Edge], conditions: Conditions
) -> Iterator[str]:
    for node in nodes:
        if not node.requires_all_predecessors:
            continue
        incoming = [edge for edge in edges if edge.to_node is node]
        ways = [conditions[edge.from_node.name] | _condition(edge) for edge in incoming]
        shared = frozenset[Condition].intersection(*ways) if ways else frozenset[Condition]()
        for edge, way in zip(incoming, ways, strict=True):
            if extra := sorted(way - shared, key=repr):
                source, routes = extra[0]
                shown = ", ".join(map(repr, routes))
                yield (
                    f"Node {node.name!r} waits for {edge.from_node.name!r}, which reaches it only "
                    f"if {source!r} emits the route {shown}; otherwise {node.name!r} never runs."
                )
                break


def _several_outputs(terminal: list[str], conditions: Conditions) -> Iterator[str]:
    for place, one in enumerate(terminal):
        together = [
            other for other in terminal[place + 1 :] if not _exclude(conditions, one, other)
        ]
        if together:
            yield (
                f"Nodes {one!r} and {together[0]!r} may both give the output; a workflow has one. "
                "Put a node behind them, or let only one of them give an output."
            )
            return


def _exclude(conditions: Conditions, one: str, other: str) -> bool:
    """Return whether two nodes depend on different routes of one node."""
    return any(
        source == source_of_other and not any(route in other_routes for route in routes)
        for source, routes in conditions[one]
        for source_of_other, other_routes in conditions[other]
    )


def _doubtful_routes(name: str, after: list[Edge]) -> Iterator[str]:
    routes = [route for edge in after for route in route_values(edge.route)]
    if routes and DEFAULT_ROUTE not in routes:
        yield (
            f"Node {name!r} has no edge with DEFAULT_ROUTE: a route that no edge has ends the "
            "branch without a result."
        )
    for route in routes:
        twins = [one for one in routes if one == route and type(one) is not type(route)]
        if isinstance(route, bool) and twins:
            yield (
                f"Node {name!r} has edges for {route!r} and {twins[0]!r}, which are equal, so both "
                "fire."
            )
