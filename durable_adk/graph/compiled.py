"""`Graph`: nodes and edges, checked and in order."""

from collections.abc import Sequence
from typing import Any

from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.edges import parse_edges
from durable_adk.graph.validation import graph_warnings, validate_graph


class Graph:
    """The nodes of a workflow and the edges between them.

    Nodes are in the order of their first mention in the edges, START among them. The order of
    nodes and edges decides the order of runs, of a join's output, and of drawings (GR-17).
    """

    def __init__(self, edges: Sequence[Edge]) -> None:
        """Take the edges, and check them.

        Raises:
            GraphValidationError: The graph is not well formed.
        """
        self.edges = tuple(edges)
        ends = [node for edge in self.edges for node in (edge.from_node, edge.to_node)]
        self.nodes = tuple({id(node): node for node in ends}.values())
        validate_graph(self.nodes, self.edges)
        self._by_name = {node.name: node for node in self.nodes}

    @classmethod
    def from_edge_items(cls, items: list[Any]) -> "Graph":
        """Return the graph of a list of edges and chains; see `parse_edges`.

        Raises:
            GraphValidationError: The graph is not well formed.
            WorkflowConfigurationError: The list is not; see `parse_edges`.
        """
        return cls(parse_edges(items))

    def __getitem__(self, name: str) -> BaseNode:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def outgoing(self, name: str) -> list[Edge]:
        """Return the edges from a node, in their order."""
        return [edge for edge in self.edges if edge.from_node.name == name]

    def predecessors(self, name: str) -> list[str]:
        """Return the names of the nodes with an edge to a node, in the order of the edges."""
        return list({e.from_node.name: None for e in self.edges if e.to_node.name == name})

    @property
    def terminal_nodes(self) -> list[str]:
        """The names of the nodes without outgoing edges: one of them gives the output."""
        sources = {edge.from_node.name for edge in self.edges}
        return [node.name for node in self.nodes if node is not START and node.name not in sources]

    def warnings(self) -> list[str]:
        """Return what of the graph is probably a mistake; see `graph_warnings`."""
        return graph_warnings(self.nodes, self.edges)
