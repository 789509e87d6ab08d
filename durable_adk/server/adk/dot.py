"""Draws an app's agents and graphs in Graphviz's DOT language."""

from collections.abc import Collection, Iterator

from durable_adk.apps.app_declaration import AgentDescription
from durable_adk.wire.manifest import GraphEdge, GraphNode, GraphRecord

_DARK = {"background": "#333537", "line": "#cccccc", "text": "#cccccc"}
_LIGHT = {"background": "#ffffff", "line": "#64748b", "text": "#0f172a"}
_CHOSEN = {"fill": "#0f5223", "line": "#69cb87"}
_START, _END, _DEFAULT = "__START__", "__END__", "__DEFAULT__"
_SIGNS = {"agent": "🤖", "workflow": "🔀", "tool": "🔧", "worker": "⁂"}


def levels(root: AgentDescription, path: str) -> Iterator[tuple[str, AgentDescription]]:
    """Yield an agent or graph and all graphs in it, each with its path."""
    yield path, root
    for one in root.sub_agents if root.graph else ():
        if one.graph is not None:
            yield from levels(one, f"{path}/{one.name}" if path else one.name)


def dot_source(root: AgentDescription, chosen: Collection[str], *, dark: bool) -> str:
    """Return the drawing of a tree of agents, or of one graph.

    Args:
        root: The root agent, or the graph.
        chosen: Names of the agents, tools and nodes to highlight.
        dark: Whether the background is dark.
    """
    colors = _DARK if dark else _LIGHT
    line, text = colors["line"], colors["text"]
    is_graph = root.graph is not None
    direction, arrow = ("TB", "") if is_graph else ("LR", "arrowhead=none ")
    lines = [
        f'graph [rankdir={direction} bgcolor="{colors["background"]}"]',
        f'node [style=rounded color="{line}" fontcolor="{text}"]',
        f'edge [{arrow}color="{line}" fontcolor="{text}"]',
        *(_graph(root, root.graph, chosen) if root.graph is not None else _lines(root, chosen)),
    ]
    return "\n\t".join(["strict digraph {", *lines]) + "\n}\n"


def node_kind(graph: AgentDescription, node: GraphNode) -> str:
    """Return the kind of a node of a graph, in ADK's words."""
    found = next((one for one in graph.sub_agents if one.name == node.name), None)
    return "workflow" if node.kind == "agent" and found and found.graph else node.kind


def _graph(root: AgentDescription, graph: GraphRecord, chosen: Collection[str]) -> Iterator[str]:
    sources = {edge.source for edge in graph.edges}
    yield _node(_START, "START", "circle", chosen)
    for node in graph.nodes:
        yield _graph_node(root, graph, node, chosen)
    yield _node(_END, "END", "circle", chosen)
    for edge in graph.edges:
        yield _edge(edge.source, edge.target, chosen, _label(edge))
    for node in graph.nodes:
        if node.name not in sources:
            yield _edge(node.name, _END, chosen)


def _graph_node(
    root: AgentDescription, graph: GraphRecord, node: GraphNode, chosen: Collection[str]
) -> str:
    routes = [one for e in graph.edges if e.source == node.name for one in _routes(e)]
    sign = _SIGNS.get(node_kind(root, node), "")
    label = f"{sign} {node.name}".strip()
    if routes and _DEFAULT not in routes:
        label += " [NO DEFAULT]"
    shape = "diamond" if routes else "oval" if node.joins else "box"
    return _node(node.name, label, shape, chosen)


def _routes(edge: GraphEdge) -> list[bool | int | str]:
    if edge.route is None:
        return []
    return edge.route if isinstance(edge.route, list) else [edge.route]


def _label(edge: GraphEdge) -> str:
    return ", ".join("default" if one == _DEFAULT else str(one) for one in _routes(edge))


def _lines(agent: AgentDescription, chosen: Collection[str]) -> Iterator[str]:
    yield _node(agent.name, f"🤖 {agent.name}", "ellipse", chosen)
    for tool in agent.tools:
        yield _node(tool.name, f"{'🤖' if tool.is_agent else '🔧'} {tool.name}", "box", chosen)
        yield _edge(agent.name, tool.name, chosen)
    for one in agent.sub_agents:
        yield from _lines(one, chosen)
        yield _edge(agent.name, one.name, chosen)


def _node(name: str, label: str, shape: str, chosen: Collection[str]) -> str:
    fill = _CHOSEN["fill"]
    more = f' style="filled,rounded" fillcolor="{fill}"' if name in chosen else ""
    return f"{_quoted(name)} [label={_quoted(label)} shape={shape}{more}]"


def _edge(start: str, end: str, chosen: Collection[str], label: str = "") -> str:
    marked = start in chosen and end in chosen
    more = [f'color="{_CHOSEN["line"]}"'] if marked else []
    more += [f"label={_quoted(label)}"] if label else []
    return f"{_quoted(start)} -> {_quoted(end)}" + (f" [{' '.join(more)}]" if more else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
