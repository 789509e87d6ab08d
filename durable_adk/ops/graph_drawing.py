"""Draws an app's graph, or its tree of agents, in Mermaid's language."""

import re
from collections.abc import Iterator

from durable_adk.wire.manifest import AgentNode, GraphEdge, GraphNode, GraphRecord

START = "__START__"
"""Name of the node that the first edges of a recorded graph come from."""
_DEFAULT = "__DEFAULT__"
_UNSAFE = re.compile(r"\W", re.ASCII)
_RESERVED = {
    *("end", "graph", "subgraph", "flowchart", "direction", "style", "class", "classdef"),
    *("click", "linkstyle", "default", "call", "href"),
}


def mermaid(root: AgentNode) -> str:
    """Return a flow chart of an app in Mermaid's language.

    START and END are circles, joins are rounded, nodes whose routes decide what follows are
    diamonds, and a graph in the graph is a subgraph. Solid edges lead to the next node, with their
    routes as labels; dotted ones lead to an agent's sub-agents.

    Args:
        root: The app's manifest.
    """
    drawing = _Drawing()
    body = drawing.level(root) if root.graph is not None else drawing.tree(root, root.name)
    return "\n".join(["flowchart TD", *(f"    {line}" for line in body)]) + "\n"


class _Drawing:
    """Gives every node an id of its own, because names are unique in one graph only."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def level(self, graph: AgentNode, above: str = "") -> Iterator[str]:
        """Yield the nodes of a graph, then its edges."""
        record = graph.graph or GraphRecord()
        children = {child.name: child for child in graph.children}
        ids = {START: self._id(f"{above}START")}
        yield f'{ids[START]}(("START"))'
        for node in record.nodes:
            ids[node.name] = self._id(f"{above}{node.name}")
            yield from self._node(node, record, children.get(node.name), ids[node.name])
        end = self._id(f"{above}END")
        yield f'{end}(("END"))'
        for edge in record.edges:
            yield _arrow(ids[edge.source], ids[edge.target], _label(edge))
        sources = {edge.source for edge in record.edges}
        for node in record.nodes:
            if node.name not in sources:
                yield _arrow(ids[node.name], end)

    def tree(self, agent: AgentNode, name: str) -> Iterator[str]:
        """Yield an agent and those below it."""
        own = self._id(name)
        yield f"{own}[{_quoted(_titled(agent))}]"
        yield from self._below(agent, own)

    def _below(self, agent: AgentNode, own: str) -> Iterator[str]:
        for child in agent.children:
            below = self._id(child.name)
            yield f"{below}[{_quoted(_titled(child))}]"
            yield f"{own} -.-> {below}"
            yield from self._below(child, below)

    def _node(
        self, node: GraphNode, record: GraphRecord, child: AgentNode | None, own: str
    ) -> Iterator[str]:
        title = f"{node.name}, for each item" if node.kind == "worker" else node.name
        if child is not None and child.graph is not None:
            yield f"subgraph {own}[{_quoted(title)}]"
            yield from (f"    {line}" for line in self.level(child, f"{own}_"))
            yield "end"
            return
        if any(edge.source == node.name and edge.route is not None for edge in record.edges):
            opened, closed = "{", "}"
        elif node.joins:
            opened, closed = "(", ")"
        elif node.kind == "worker":
            opened, closed = "[[", "]]"
        else:
            opened, closed = "[", "]"
        yield f"{own}{opened}{_quoted(title)}{closed}"
        if child is not None:
            yield from self._below(child, own)

    def _id(self, name: str) -> str:
        """Return an id that Mermaid accepts and that no other node has."""
        safe = _UNSAFE.sub("_", name)
        safe = f"{safe}_" if safe.lower() in _RESERVED and safe != "END" else safe
        found, number = safe, 1
        while found in self._taken:
            number += 1
            found = f"{safe}_{number}"
        self._taken.add(found)
        return found


def _titled(agent: AgentNode) -> str:
    return agent.name if agent.kind == "llm" else f"{agent.name} ({agent.kind})"


def _arrow(source: str, target: str, label: str = "") -> str:
    return f"{source} -->|{_quoted(label)}| {target}" if label else f"{source} --> {target}"


def _label(edge: GraphEdge) -> str:
    """Return the routes of an edge."""
    routes = edge.route if isinstance(edge.route, list) else [edge.route]
    return ", ".join(
        "default" if one == _DEFAULT else str(one) for one in routes if one is not None
    )


def _quoted(text: str) -> str:
    """Return a text that Mermaid shows as it is."""
    escaped = text.replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;")
    return f'"{" ".join(escaped.split())}"'
