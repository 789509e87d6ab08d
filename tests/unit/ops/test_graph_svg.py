"""Layouts of graphs, and their drawings as SVG."""

import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import pytest

from durable_adk import extras
from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.apps.app_declaration import described
from durable_adk.apps.graph_layout import DrawnNode, GraphLayout, graph_layout
from durable_adk.errors import InvalidRequestError
from durable_adk.ops.graph_svg import svg
from durable_adk.workflow import DEFAULT_ROUTE, BaseNode, JoinNode, RetryConfig, Workflow, node

SVG = "{http://www.w3.org/2000/svg}"


def function(name: str) -> Any:
    """Return a function of this name."""

    def one(node_input: Any) -> Any:
        return node_input

    one.__name__ = name
    return one


def graph() -> Workflow:
    """Return a graph with all that a drawing may show."""
    inner_end, check = function("inner_end"), function("check")
    inner = Workflow(
        name="inner",
        edges=[("START", check, {"fast": inner_end, DEFAULT_ROUTE: function("slow")})],
    )
    each = node(function("each"), parallel_worker=True, max_parallel_workers=4)
    careful = node(function("careful"), retry_config=RetryConfig(max_attempts=3), timeout=5)
    decide = function("decide")
    agent = LlmAgent(name="agent", model="offline", sub_agents=[LlmAgent(name="helper")])
    return Workflow(
        name="wf",
        edges=[
            ("START", (each, careful), JoinNode(name="both"), decide),
            (decide, {True: inner, "again": careful, DEFAULT_ROUTE: agent}),
        ],
    )


def layout(root: BaseNode) -> GraphLayout:
    """Return the layout of an app with this root."""
    return graph_layout(described(App(name="app", root_agent=root)).root_agent)


def inside(node: DrawnNode, other: DrawnNode) -> bool:
    """Return whether a node is within another one."""
    return (
        node.x >= other.x
        and node.y >= other.y
        and node.x + node.width <= other.x + other.width
        and node.y + node.height <= other.y + other.height
    )


def apart(node: DrawnNode, other: DrawnNode) -> bool:
    """Return whether two nodes have no place in common."""
    return (
        node.x + node.width <= other.x
        or other.x + other.width <= node.x
        or node.y + node.height <= other.y
        or other.y + other.height <= node.y
    )


def test_nodes_do_not_overlap_and_those_of_a_nested_graph_are_inside_its_box() -> None:
    """All of the drawing is within its size."""
    drawn = layout(graph())
    nodes = {one.path: one for one in drawn.nodes}
    assert len(nodes) == len(drawn.nodes)
    inner = nodes["wf/inner"]
    within = [one for path, one in nodes.items() if path.startswith("wf/inner/")]
    assert len(within) == 5
    assert all(inside(one, inner) for one in within)
    outer = [one for path, one in nodes.items() if not path.startswith("wf/inner/")]
    for one, other in (*combinations(outer, 2), *combinations(within, 2)):
        assert apart(one, other), (one.path, other.path)
    for x, y in [(point.x, point.y) for edge in drawn.edges for point in edge.points]:
        assert 0 <= x <= drawn.width
        assert 0 <= y <= drawn.height
    assert all(edge.points and edge.source in nodes for edge in drawn.edges)


def test_nodes_say_what_they_are_and_edges_their_routes() -> None:
    """Routes keep their types: who follows a run compares them with those that nodes emit."""
    drawn = layout(graph())
    facts = {one.path: one.facts for one in drawn.nodes}
    assert facts["wf/each"] == "function for each item, 4 at once"
    assert facts["wf/careful"] == "function, up to 3 attempts, 5 s"
    assert facts["wf/both"] == "join"
    assert [one.path for one in drawn.nodes if one.joins] == ["wf/both"]
    assert [one.path for one in drawn.nodes if one.decides] == ["wf/decide", "wf/inner/check"]
    routed = {(one.label, one.route): one for one in drawn.edges if one.route is not None}
    assert routed["True", True].target == "wf/inner"
    assert routed["default", DEFAULT_ROUTE].label_at is not None
    assert [(one.source, one.target) for one in drawn.edges if one.below] == [
        ("wf/agent", "wf/agent/helper")
    ]


def test_equal_graphs_have_equal_layouts() -> None:
    """A page that loads it again does not jump."""
    assert layout(graph()) == layout(graph())


def test_the_svg_has_every_node_and_label_and_nothing_that_runs() -> None:
    """It can be opened as a file, and embedded: no script, no reference to elsewhere."""
    drawing = svg(described(App(name="app", root_agent=graph())).root_agent)
    root = ET.fromstring(drawing)  # noqa: S314 - our own
    texts = [one.text for one in root.iter(f"{SVG}text")]
    names = ["each", "careful", "both", "decide", "agent", "helper", "inner", "check", "slow"]
    assert set(names) <= set(texts)
    assert {"True", "again", "default", "fast"} <= set(texts)
    assert texts.count("START") == texts.count("END") == 2
    assert len(list(root.iter(f"{SVG}polygon"))) == 2
    assert "<script" not in drawing
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")


def test_a_route_may_be_any_text() -> None:
    """What XML gives a meaning to is a text there."""
    routes = {'a < b & "c"': function("one"), "]]>": function("two")}
    root = Workflow(name="wf", edges=[("START", function("f"), routes)])
    drawing = ET.fromstring(svg(described(App(name="app", root_agent=root)).root_agent))  # noqa: S314
    assert {'a < b & "c"', "]]>"} <= {one.text for one in drawing.iter(f"{SVG}text")}


def test_a_tree_of_agents_has_dotted_edges() -> None:
    """An agent without a graph is drawn, too."""
    root = SequentialAgent(name="root", sub_agents=[LlmAgent(name="a"), LlmAgent(name="b")])
    drawn = layout(root)
    assert [one.facts for one in drawn.nodes] == ["SequentialAgent", "agent", "agent"]
    assert all(one.below for one in drawn.edges)
    assert 'class="edge below"' in svg(described(App(name="app", root_agent=root)).root_agent)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mermaid needs none."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(InvalidRequestError, match=r"durable-adk\[drawing\]"):
        layout(graph())
