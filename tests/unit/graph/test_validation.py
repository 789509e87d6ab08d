"""The form of a graph, and what of it is doubtful."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from durable_adk.agents import LlmAgent
from durable_adk.errors import GraphValidationError, StateSchemaError
from durable_adk.graph.base_node import BaseNode, Edge
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.graph.workflow import Graph, Workflow


def a(node_input: Any) -> Any: ...
def b(node_input: Any) -> Any: ...
def c(node_input: Any) -> Any: ...
def d(node_input: Any) -> Any: ...


class City(BaseModel):
    """Data."""

    name: str


class Town(BaseModel):
    """Other data."""

    name: str


class Picky(BaseNode):
    """Checks its own edges."""

    def _validate_outgoing_edges(self, edges: list[Edge]) -> None:
        if len(edges) != 1:
            raise GraphValidationError(f"{self.name} wants one edge, not {len(edges)}")


def twin() -> FunctionNode:
    """Another node of the name ``a``."""
    return FunctionNode(func=b, name="a")


def to_city() -> FunctionNode:
    return FunctionNode(func=lambda: City(name=""), name="to_city").with_changes(output_schema=City)


def of_town(node_input: Town) -> None: ...


NODE, OTHER = FunctionNode(func=a), FunctionNode(func=b)
REFUSED = {
    "GR-25": ([("START", a), (a, twin())], "Duplicate node names found: ['a']. This means"),
    "GR-26": ([(a, b)], "START node (name: '__START__') not found in graph nodes."),
    "GR-27": ([("START", {"x": a})], "Edges from START must not have routes (edge to a has"),
    "GR-28": ([("START", a), (c, b)], "unreachable from START: ['b', 'c']"),
    "GR-29": ([("START", a, {"x": "START"})], "START node must not have incoming edges."),
    "GR-30": ([("START", a, b), (a, b)], "Duplicate edge found: from=a, to=b"),
    "GR-30 routed and not": ([("START", a, b), (a, {"x": b})], "Duplicate edge found"),
    "GR-30 one route twice": (
        [("START", NODE), Edge(NODE, OTHER, ["x", "y"]), Edge(NODE, OTHER, "y")],
        "Duplicate edge found: from=a, to=b",
    ),
    "GR-30 equal routes": (
        [("START", NODE), Edge(NODE, OTHER, route=True), Edge(NODE, OTHER, 1)],
        "Duplicate edge found",
    ),
    "GR-30 in a tuple": ([("START", a, (b, b))], "Duplicate edge found: from=a, to=b"),
    "GR-31": (
        [("START", NODE), Edge(NODE, OTHER, ["x", DEFAULT_ROUTE])],
        "DEFAULT_ROUTE cannot be combined with other routes in a list (edge from=a, to=b)",
    ),
    "GR-32": ([("START", a, b, a)], "Unconditional cycle detected: "),
    "GR-32 itself": ([("START", a, a)], "Unconditional cycle detected: a -> a. Cycles"),
    "GR-33": ([("START", to_city(), of_town)], "Schema mismatch on edge to_city -> of_town."),
    "GR-34": (
        [("START", a, LlmAgent(name="g", model="m", mode="chat"))],
        "The agent 'g' has been added to the workflow with mode='chat' following node 'a'",
    ),
    "GR-35": ([("START", Picky(name="p"))], "p wants one edge, not 0"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_is_not_well_formed_is_refused(row: str) -> None:
    """GR-25 to GR-35: when the workflow is made, in ADK's words."""
    items, says = REFUSED[row]
    with pytest.raises(ValidationError) as caught:
        Workflow(name="wf", edges=items)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("items", "first"),
    [
        ([(twin(), a), (a, {"x": "START"})], "Duplicate node names"),
        ([("START", {"x": a}), (c, b), (b, b)], "must not have routes"),
        ([("START", a, a), (c, b)], "unreachable"),
        ([("START", a, {"x": "START"}), (a, {"x": b}), (a, b)], "incoming edges"),
        ([("START", a, b, a), (a, b)], "Duplicate edge"),
    ],
)
def test_the_first_fault_is_reported(items: Any, first: str) -> None:
    """GR-25 to GR-32: names, START, reach, duplicates, cycles."""
    with pytest.raises(ValidationError, match=first):
        Workflow(name="wf", edges=items)


def test_a_cycle_with_a_route_is_well_formed() -> None:
    """GR-32: also one through many nodes, and a node that leads to itself."""
    many = [FunctionNode(func=a, name=f"n{place}") for place in range(3000)]
    assert Graph.from_edge_items([("START", *many), (many[-1], {"again": many[0]})])
    assert Graph.from_edge_items([("START", a, {"again": a, "done": b})])
    assert Graph.from_edge_items([("START", a, b), (b, {"x": a, "y": a, "z": c})])


def test_a_chat_agent_begins_a_graph() -> None:
    """GR-34: right after START it has no node before it."""
    chat = LlmAgent(name="g", model="m", mode="chat")
    assert Workflow(name="wf", edges=[("START", chat)]).graph


class Known(BaseModel):
    """A schema of states."""

    n: int


def reads(ctx: Any, node_input: Any, n: int = 1) -> None: ...
def reads_no(node_input: str) -> None: ...


def reads_more(n: int, m: int = 1) -> None: ...


def test_a_function_reads_only_declared_state() -> None:
    """GR-40: all its parameters but `ctx` and `node_input` are in the workflow's schema."""
    assert Workflow(name="wf", edges=[("START", reads)], state_schema=Known).graph
    assert Workflow(name="wf", edges=[("START", reads_more)]).graph
    with pytest.raises(StateSchemaError) as caught:
        Workflow(name="wf", edges=[("START", reads, reads_more)], state_schema=Known)
    assert str(caught.value) == (
        "FunctionNode 'reads_more' parameter 'm' is not declared in state_schema 'Known'. Declared "
        "fields: ['n']"
    )


def test_nodes_around_a_graph_have_schemas_of_their_own() -> None:
    """GR-40: only functions directly in the graph count."""
    inner = Workflow(name="inner", edges=[("START", reads_more)])
    assert Workflow(name="wf", edges=[("START", inner)], state_schema=Known).graph


JOIN = JoinNode(name="j")
CHAT = LlmAgent(name="g", model="m", mode="chat")
DOUBTFUL = {
    "nothing": ([("START", a, (b, c), JOIN)], []),
    "a join behind one route": (
        [("START", a, {"x": (b, c), DEFAULT_ROUTE: d}), ((b, c), JOIN, d)],
        [],
    ),
    "a join behind two routes": (
        [("START", a, {"x": b, DEFAULT_ROUTE: c}, JOIN)],
        ["Node 'j' waits for 'b' and 'c', but the routes of a run may lead only 'b' to it"],
    ),
    "a join that a route leads to": (
        [("START", (a, b)), (a, {"x": JOIN, DEFAULT_ROUTE: c}), (b, JOIN), (JOIN, c)],
        ["Node 'j' waits for 'b' and 'a', but the routes of a run may lead only 'b' to it"],
    ),
    "a join after a loop": (
        [("START", a, {"again": a, DEFAULT_ROUTE: (b, c)}), ((b, c), JOIN)],
        [],
    ),
    "two outputs": (
        [("START", a, (b, c))],
        ["Nodes 'b' and 'c' may both give the output"],
    ),
    "a join of which a loop is one branch": (
        [("START", (a, d)), (a, {"again": a, DEFAULT_ROUTE: b}), ((b, d), JOIN)],
        [],
    ),
    "a join behind a join": (
        [("START", (a, b), JOIN), (JOIN, (c, d), JoinNode(name="k"))],
        [],
    ),
    "one of two outputs behind a join": (
        [("START", (a, b), JOIN), (JOIN, {"x": c, DEFAULT_ROUTE: d})],
        [],
    ),
    "an output beside a join": (
        [("START", (a, b, c)), ((a, b), JOIN, d)],
        ["Nodes 'c' and 'd' may both give the output"],
    ),
    "one of two outputs, on several ways": (
        [("START", a, {"x": b, DEFAULT_ROUTE: d}), (b, {"ok": c, DEFAULT_ROUTE: d})],
        [],
    ),
    "one of two outputs after a loop": (
        [("START", a, {"again": a, "x": b, DEFAULT_ROUTE: c})],
        [],
    ),
    "two outputs, of which one function has none": ([("START", a, (b, reads_no))], []),
    "yes and no": ([("START", a, {True: b, False: c})], []),
    "a route beside an edge without": (
        [("START", a, b), (a, {"x": c})],
        ["Nodes 'b' and 'c' may both give the output"],
    ),
    "one of two outputs": ([("START", a, {"x": b, DEFAULT_ROUTE: c})], []),
    "two outputs of one route": (
        [("START", a, {"x": (b, c), DEFAULT_ROUTE: d})],
        ["Nodes 'b' and 'c' may both give the output"],
    ),
    "behind a chat": (
        [("START", CHAT, b)],
        ["Node 'g' is a chat agent, which never ends, so that 'b' behind it never runs."],
    ),
    "no default": (
        [("START", a, {"x": b, "y": c})],
        ["Node 'a' has no edge with DEFAULT_ROUTE"],
    ),
    "equal routes": (
        [("START", NODE, {True: b, DEFAULT_ROUTE: d}), (NODE, {1: c})],
        [
            "Nodes 'b' and 'c' may both give the output",
            "Node 'a' has edges for True and 1, which are equal, so both fire.",
        ],
    ),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_what_is_probably_a_mistake_is_told(case: str) -> None:
    """GR-42: the graph is accepted, and each warning names the node."""
    items, says = DOUBTFUL[case]
    found = Graph.from_edge_items(items).warnings()
    assert len(found) == len(says), found
    for one, text in zip(found, says, strict=True):
        assert one.startswith(text)
