"""Chains, fan-outs and routing maps."""

from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.errors import WorkflowConfigurationError
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.edges import parse_edges
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.graph.workflow import Graph


def a(node_input: Any) -> None: ...
def b(node_input: Any) -> None: ...
def c(node_input: Any) -> None: ...
def d(node_input: Any) -> None: ...


class Desk:
    """Has a method that is a node."""

    def go(self, node_input: Any) -> None: ...


DESK = Desk()
NODE, OTHER = FunctionNode(func=a), FunctionNode(func=b)


def arrows(items: Any) -> str:
    """The edges of a list, each as ``from>to`` or ``from>to:route``."""
    routes = ("" if edge.route is None else f":{edge.route}" for edge in parse_edges(items))
    ends = (f"{edge.from_node.name}>{edge.to_node.name}" for edge in parse_edges(items))
    return " ".join(map("".join, zip(ends, routes, strict=True))).replace("__START__", "S")


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([("START", a, b, c)], "S>a a>b b>c"),
        ([["START", a]], "S>a"),
        ([(START, a)], "S>a"),
        ([("START", (a, b), c)], "S>a S>b a>c b>c"),
        ([((a, b), (c, d))], "a>c a>d b>c b>d"),
        ([("START", a, {"x": b, 7: c, True: d})], "S>a a>b:x a>c:7 a>d:True"),
        ([(a, {"x": b, "y": c}, d)], "a>b:x a>c:y b>d c>d"),
        ([(a, {"x": (b, c), DEFAULT_ROUTE: d})], "a>b:x a>c:x a>d:__DEFAULT__"),
        ([((a, b), {"x": (c, d)})], "a>c:x a>d:x b>c:x b>d:x"),
        ([((a, b), {"x": c, "y": d})], "a>c:x b>c:x a>d:y b>d:y"),
        ([(a, {"x": b, "y": b})], "a>b:x a>b:y"),
        ([(a, {"x": b, "y": b}, c)], "a>b:x a>b:y b>c"),
        ([("START", NODE), Edge(NODE, OTHER, ["x", "y"])], "S>a a>b:['x', 'y']"),
        ([], ""),
    ],
)
def test_a_chain_is_short_for_edges(items: Any, expected: str) -> None:
    """GR-14 to GR-18: neighbours are joined all to all, and maps by route."""
    assert arrows(items) == expected


def test_the_same_object_is_the_same_node() -> None:
    """GR-17: functions, bound methods, tools, agents and nodes; in the order of first mention."""
    agent = LlmAgent(name="agent", model="m")
    items = [("START", DESK.go, agent), (DESK.go, a), (agent, a, {"x": agent, "y": "START"})]
    ends = [node for edge in parse_edges(items) for node in (edge.from_node, edge.to_node)]
    named: dict[str, set[int]] = {}
    for node in ends:
        named.setdefault(node.name, set()).add(id(node))
    assert list(named) == ["__START__", "go", "agent", "a"]
    assert all(len(objects) == 1 for objects in named.values())
    assert id(agent) not in named["agent"]


def test_two_lists_have_nodes_of_their_own() -> None:
    """GR-12: one agent may be in several graphs."""
    agent = LlmAgent(name="agent", model="m")
    one, other = (parse_edges([("START", agent)])[0].to_node for _ in range(2))
    assert len({id(one), id(other), id(agent)}) == 3


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([("START", a, {})], "Routing map must not be empty"),
        ([(a, {"x": b}, {"y": c})], "Consecutive routing maps are not allowed"),
        ([({"x": a}, b)], r"edges\[0\]: a routing map needs an element before it"),
        ([("START", a), (a, {1.5: b})], r"Invalid routing map key: 1.5 .* at edges\[1\]\[1\]"),
        ([(a, {None: b})], "Invalid routing map key: None"),
        ([(a, {"x": 5})], r"edges\[0\]\[1\]\['x'\]: 5 \(type int\) is no node"),
        ([(a, {"x": (b, 5)})], r"edges\[0\]\[1\]\['x'\]: 5"),
        ([(a, (b, {"x": c}))], "is no node"),
        ([(a, ())], "a fan-out needs at least one node"),
        ([(a,)], "a chain needs at least two elements"),
        ([5], r"Invalid edge type: <class 'int'> at edges\[0\]"),
        ([a], "Invalid edge type"),
        ([(a, "end")], "'end' .* is no node"),
        ([(a, BaseNode)], "is no node"),
    ],
)
def test_what_is_no_chain_is_refused(items: Any, says: str) -> None:
    """GR-36: the message names the place."""
    with pytest.raises(WorkflowConfigurationError, match=says):
        parse_edges(items)


def test_a_graph_keeps_the_order_of_the_edges() -> None:
    """GR-17, GR-57: of nodes, of a node's edges and of its predecessors."""
    graph = Graph.from_edge_items([("START", (c, b, a)), (a, d), (c, d), (b, d), (a, c, {"x": b})])
    assert [node.name for node in graph.nodes] == ["__START__", "c", "b", "a", "d"]
    assert [edge.to_node.name for edge in graph.outgoing("a")] == ["d", "c"]
    assert graph.predecessors("d") == ["a", "c", "b"]
    assert graph.predecessors("b") == ["__START__", "c"]
    assert graph.terminal_nodes == ["d"]
    assert graph["d"].name == "d"
    assert "d" in graph
    assert "e" not in graph
