"""The checks of a graph's form, with ADK's messages, and warnings."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from durable_adk.errors import GraphValidationError
from durable_adk.events.event_actions import RouteValue
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.routes import DEFAULT_ROUTE, fired, route_values


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
    outgoing = {node.name: [edge for edge in edges if edge.from_node is node] for node in nodes}
    ways = _Ways(nodes, edges)
    found = list(_starved_joins(nodes, edges, ways))
    found += _several_outputs(nodes, edges, ways)
    for node in nodes:
        after = outgoing[node.name]
        if node.never_ends and after:
            found.append(
                f"Node {node.name!r} is a chat agent, which never ends, so that "
                f"{after[0].to_node.name!r} behind it never runs."
            )
        found += _doubtful_routes(node.name, after)
    return found


_MOST = 30
"""Maximum number of a join's predecessors, and of last nodes, that are compared with each other."""
Wanted = Callable[[Edge], bool]
Outcome = tuple[bool, bool]
"""Whether a run fires an edge of the first kind, and one of the second."""
_NEITHER: Outcome = (False, False)


class _Ways:
    """The ways of a graph's runs: each run of a node gives one of its routes.

    A join is run once, so only its first edge leads on.
    """

    def __init__(self, nodes: Sequence[BaseNode], edges: Sequence[Edge]) -> None:
        outgoing: dict[str, list[Edge]] = {node.name: [] for node in nodes}
        first: dict[str, Edge] = {}
        for edge in edges:
            outgoing[edge.from_node.name].append(edge)
            first.setdefault(edge.to_node.name, edge)
        ends = {node.name for node in nodes if node.never_ends}
        self._fires: dict[str, list[list[Edge]]] = {
            name: [[]] if name in ends else _choices(after) for name, after in outgoing.items()
        }
        self._stops = {
            id(edge)
            for edge in edges
            if edge.to_node.requires_all_predecessors and first[edge.to_node.name] is not edge
        }

    def outcomes(self, one: Wanted, other: Wanted) -> set[Outcome]:
        """Return whether runs that come to an end fire an edge of each kind."""
        known: dict[str, set[Outcome]] = {name: set() for name in self._fires}
        changed = True
        while changed:  # the sets only grow, to at most four elements
            changed = False
            for name, found in known.items():
                for fires in self._fires[name]:
                    together = {_NEITHER}
                    for edge in fires:
                        own = one(edge), other(edge)
                        after = {_NEITHER} if id(edge) in self._stops else known[edge.to_node.name]
                        together = {_either(_either(own, a), b) for a in after for b in together}
                    changed |= not together <= found
                    found.update(together)
        return known[START.name]


def _either(one: Outcome, other: Outcome) -> Outcome:
    return one[0] or other[0], one[1] or other[1]


def _choices(after: list[Edge]) -> list[list[Edge]]:
    """Return the edges that fire together, for each route that a node may give."""
    routes = dict.fromkeys(route for edge in after for route in route_values(edge.route))
    if not routes:
        return [after]
    known = [fired(after, route) for route in routes if route != DEFAULT_ROUTE]
    # Another route, or none; without an edge for it, that is another warning.
    others = fired(after, None)
    return [*known, others] if others else known


def _starved_joins(nodes: Sequence[BaseNode], edges: Sequence[Edge], ways: _Ways) -> Iterator[str]:
    for node in nodes:
        if not node.requires_all_predecessors:
            continue
        sources = list(dict.fromkeys(e.from_node.name for e in edges if e.to_node is node))
        for one, other in ((sources[0], other) for other in sources[1:_MOST]):
            found = ways.outcomes(_leads(one, node), _leads(other, node))
            for (came, missing), way in (
                ((one, other), (True, False)),
                ((other, one), (False, True)),
            ):
                if way in found:
                    yield (
                        f"Node {node.name!r} waits for {came!r} and {missing!r}, but the routes of "
                        f"a run may lead only {came!r} to it; then {node.name!r} never runs."
                    )
                    break
            else:
                continue
            break


def _leads(source: str, target: BaseNode) -> Wanted:
    return lambda edge: edge.from_node.name == source and edge.to_node is target


def _several_outputs(
    nodes: Sequence[BaseNode], edges: Sequence[Edge], ways: _Ways
) -> Iterator[str]:
    sources = {edge.from_node.name for edge in edges}
    terminal = [node for node in nodes if node.name not in sources and not _returns_nothing(node)]
    for one, other in combinations(terminal[:_MOST], 2):
        found = ways.outcomes(
            lambda e, to=one: e.to_node is to, lambda e, to=other: e.to_node is to
        )
        if (True, True) in found:
            yield (
                f"Nodes {one.name!r} and {other.name!r} may both give the output; a workflow has "
                "one. Put a node behind them, or let only one of them give an output."
            )
            return


def _returns_nothing(node: BaseNode) -> bool:
    """Return whether a node's function is annotated to give no output."""
    hints = getattr(getattr(node, "func", None), "__annotations__", {})
    return "return" in hints and hints["return"] in (None, "None")


def _doubtful_routes(name: str, after: list[Edge]) -> Iterator[str]:
    routes = [route for edge in after for route in route_values(edge.route)]
    is_complete = DEFAULT_ROUTE in routes or len({r for r in routes if isinstance(r, bool)}) == len(
        (True, False)
    )
    if routes and not is_complete and all(edge.route is not None for edge in after):
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
