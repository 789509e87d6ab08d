"""Where a drawing of an app has its nodes and edges: one layout for all who draw it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from pydantic import Field

from durable_adk.apps.app_declaration import AgentDescription
from durable_adk.events.event_actions import RouteValue
from durable_adk.extras import Absent, require
from durable_adk.graph.base_node import START
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.routes import DEFAULT_ROUTE, route_values
from durable_adk.json_values import JsonModel
from durable_adk.wire.manifest import GraphEdge, GraphNode, GraphRecord

try:
    from graphlay import Graph, layout
except ImportError:
    if TYPE_CHECKING:
        raise
    Graph = layout = Absent

END = "__END__"
LONGEST = 40
"""Maximum characters of a text in the drawing."""
_CHARACTER, _SMALL = 7.8, 6.4
"""Widths in pixels of a character of a label, and of the smaller texts."""
_HEADER, _PADDING, _ROUND = 54.0, 20.0, 44.0


class Point(JsonModel):
    """A place in pixels, from the upper left corner."""

    x: float
    y: float


class DrawnNode(JsonModel):
    """A node of a graph, an agent, or a START or END."""

    path: str
    """The names of the graphs around it and its own, as in `NodeInfo.path` without the numbers of
    runs: ``wf/inner/a``."""
    kind: str
    """``start``, ``end``, ``function``, ``tool``, ``join``, ``worker``, ``agent``, ``workflow``,
    ``node``, or the kind of an agent below an agent."""
    label: str
    facts: str = ""
    """What a reader should know of it: its kind, attempts, timeout."""
    x: float = 0.0
    y: float = 0.0
    width: float
    height: float
    decides: bool = False
    """Whether its route decides which edges fire."""
    joins: bool = False
    waits_for_output: bool = False
    window: int | None = None
    """Of a graph: the number of its nodes that may run at once."""


class DrawnEdge(JsonModel):
    """An edge."""

    source: str
    """A path."""
    target: str
    route: RouteValue | list[RouteValue] | None = None
    label: str = ""
    below: bool = False
    """Whether it leads from an agent to its sub-agent, which is no order."""
    points: list[Point] = Field(default_factory=list[Point])
    label_at: Point | None = None
    """The middle of the label."""


class GraphLayout(JsonModel):
    """A drawing of a graph or of a tree of agents; graphs come before the nodes in them."""

    width: float
    height: float
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]


def graph_layout(root: AgentDescription) -> GraphLayout:
    """Return the layout of an app's graph, or of its tree of agents. Equal apps have equal ones.

    Raises:
        InvalidRequestError: The library that places the nodes is not installed.
    """
    require("drawing")
    drawn = _level(root, root.name) if root.graph is not None else _tree(root)
    _shift(drawn, 8.0, 8.0)
    drawn.width, drawn.height = drawn.width + 16.0, drawn.height + 16.0
    return drawn


def _level(root: AgentDescription, path: str) -> GraphLayout:
    """Return the drawing of one graph; each graph in it is placed first, and is then a node."""
    record = root.graph or GraphRecord()
    children = {one.name: one for one in root.sub_agents}
    nodes = [_round(f"{path}/{START.name}", "start", "START")]
    edges, inner = [_edge(path, edge) for edge in record.edges], dict[str, GraphLayout]()
    for node in record.nodes:
        child = children.get(node.name)
        drawn = _node(node, f"{path}/{node.name}", record.edges, child)
        if child is not None and child.graph is not None:
            inside = inner[drawn.path] = _level(child, drawn.path)
            drawn.window = child.graph.window
            drawn.width = max(drawn.width, inside.width + 2 * _PADDING)
            drawn.height = inside.height + _HEADER + _PADDING
        nodes.append(drawn)
        if child is not None and child.graph is None:
            for one, above in _below(child, drawn.path):
                nodes.append(one)
                edges.append(DrawnEdge(source=above, target=one.path, below=True))
    sources = {edge.source for edge in record.edges}
    end = _round(f"{path}/{END}", "end", "END")
    nodes.append(end)
    edges += [
        DrawnEdge(source=f"{path}/{node.name}", target=end.path)
        for node in record.nodes
        if node.name not in sources
    ]
    placed = _placed(nodes, edges)
    for node in nodes:
        if (inside := inner.get(node.path)) is not None:
            _shift(inside, node.x + (node.width - inside.width) / 2, node.y + _HEADER)
            placed.nodes += inside.nodes
            placed.edges += inside.edges
    return placed


def _tree(root: AgentDescription) -> GraphLayout:
    nodes = [_agent(root, root.name)]
    edges = list[DrawnEdge]()
    for one, above in _below(root, root.name):
        nodes.append(one)
        edges.append(DrawnEdge(source=above, target=one.path, below=True))
    return _placed(nodes, edges)


def _below(agent: AgentDescription, path: str) -> Iterator[tuple[DrawnNode, str]]:
    """Yield the agents below one, each with the path of the agent above it."""
    for child in agent.sub_agents:
        own = f"{path}/{child.name}"
        yield _agent(child, own), path
        yield from _below(child, own)


def _agent(agent: AgentDescription, path: str) -> DrawnNode:
    facts = "agent" if agent.kind == "LlmAgent" else agent.kind
    return _sized(DrawnNode(path=path, kind="agent", label=agent.name, facts=facts, **_UNSIZED))


def _node(
    node: GraphNode, path: str, edges: Sequence[GraphEdge], child: AgentDescription | None
) -> DrawnNode:
    is_graph = child is not None and child.graph is not None
    drawn = DrawnNode(
        path=path,
        kind="workflow" if node.kind == "agent" and is_graph else node.kind,
        label=node.name,
        decides=any(edge.source == node.name and edge.route is not None for edge in edges),
        joins=node.joins,
        waits_for_output=node.waits_for_output,
        **_UNSIZED,
    )
    drawn.facts = ", ".join(_facts(node, drawn.kind))
    return _sized(drawn)


def _facts(node: GraphNode, kind: str) -> Iterator[str]:
    if node.inner is not None:
        yield f"{node.inner.kind} for each item"
        if node.window is not None:
            yield f"{node.window} at once"
    elif kind != "node":
        yield kind
    if node.waits_for_output:
        yield "waits for an output"
    for rule in (node, *([node.inner] if node.inner is not None else [])):
        if rule.retry is not None:
            yield f"up to {NodeRetryConfig.model_validate(rule.retry).attempts} attempts"
        if rule.timeout is not None:
            yield f"{rule.timeout:g} s"


_UNSIZED: dict[str, Any] = {"width": 0.0, "height": 0.0}


def _sized(node: DrawnNode) -> DrawnNode:
    texts = (_CHARACTER * _cells(shortened(node.label)), _SMALL * _cells(shortened(node.facts)))
    node.width = max(96.0, *(width + (48.0 if node.decides else 28.0) for width in texts))
    node.height = 48.0 if node.facts else 38.0
    return node


def _round(path: str, kind: str, label: str) -> DrawnNode:
    return DrawnNode(path=path, kind=kind, label=label, width=_ROUND + 20.0, height=_ROUND - 12.0)


def shortened(text: str) -> str:
    """Return as much of a text as the drawing has room for."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _cells(text: str) -> int:
    return sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def _edge(path: str, edge: GraphEdge) -> DrawnEdge:
    routes = ("default" if one == DEFAULT_ROUTE else str(one) for one in route_values(edge.route))
    return DrawnEdge(
        source=f"{path}/{edge.source}",
        target=f"{path}/{edge.target}",
        route=edge.route,
        label=shortened(", ".join(routes)),
    )


def _placed(nodes: list[DrawnNode], edges: list[DrawnEdge]) -> GraphLayout:
    """Place nodes and edges, so that the drawing begins at (0, 0)."""
    graph = Graph()
    for node in nodes:
        shape = "ellipse" if node.kind in ("start", "end") else "box"
        graph.node(node.path, width=node.width, height=node.height, shape=shape)
    for edge in edges:
        size = {"width": _SMALL * _cells(edge.label) + 10.0, "height": 18.0}
        more: dict[str, Any] = {"label_size": size} if edge.label else {}
        graph.edge(edge.source, edge.target, **more)
    found = layout(graph, preset="layered", options=_OPTIONS)
    positions: dict[str, tuple[float, float]] = found.positions()
    for node in nodes:  # positions are of centres
        node.x = positions[node.path][0] - node.width / 2
        node.y = positions[node.path][1] - node.height / 2
    for edge, line in zip(edges, found.edges, strict=True):
        edge.points = [Point(x=one["x"], y=one["y"]) for one in line["points"]]
        anchor = line.get("label_anchor")
        edge.label_at = Point(x=anchor["x"], y=anchor["y"]) if edge.label and anchor else None
    drawn = GraphLayout(width=0.0, height=0.0, nodes=nodes, edges=edges)
    left, top, right, bottom = _bounds(drawn)
    _shift(drawn, -left, -top)
    drawn.width, drawn.height = right - left, bottom - top
    return drawn


_OPTIONS = {"direction": "topbottom", "spacing": {"layer_gap": 48.0, "node_gap": 32.0}}


def _bounds(drawn: GraphLayout) -> tuple[float, float, float, float]:
    boxes = [(one.x, one.y, one.x + one.width, one.y + one.height) for one in drawn.nodes]
    for edge in drawn.edges:
        boxes += [(one.x, one.y, one.x, one.y) for one in edge.points]
        if edge.label_at is not None:
            half, at = (_SMALL * _cells(edge.label) + 10.0) / 2, edge.label_at
            boxes.append((at.x - half, at.y - 9.0, at.x + half, at.y + 9.0))
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _shift(drawn: GraphLayout, x: float, y: float) -> None:
    places: list[DrawnNode | Point] = [*drawn.nodes]
    for edge in drawn.edges:
        places += [*edge.points, *([edge.label_at] if edge.label_at is not None else [])]
    for one in places:
        one.x, one.y = round(one.x + x, 1), round(one.y + y, 1)
