"""`Workflow`: a graph of nodes as a node; `Graph`: its nodes and edges, checked and in order."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field, SkipValidation, field_validator

from durable_adk.errors import StateSchemaError, WorkflowConfigurationError
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.edges import EdgeItem, parse_edges
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.validation import graph_warnings, validate_graph

_NO_STATE = ("ctx", "node_input", "self")


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


class Workflow(BaseNode):
    """Runs the nodes of a graph, each once the edges to it say so (GR-10).

    The graph is made and checked with the object. Agents in it are copies, so one agent may be in
    several graphs (GR-12).
    """

    rerun_on_resume: bool = True
    edges: SkipValidation[list[EdgeItem]] = Field(default_factory=list[EdgeItem], repr=False)
    """Edges and chains: ``("START", draft, review, {"again": draft, "done": send})``."""
    max_concurrency: int | None = None
    """Maximum number of nodes that edges have started and that run at once; None, and 0 or less: no
    limit."""
    graph: Graph | None = Field(default=None, repr=False)
    """Made of `edges`; None for a workflow without edges, which does nothing."""

    @field_validator("name")
    @classmethod
    def _no_user(cls, value: str) -> str:
        if value == "user":
            raise WorkflowConfigurationError(
                "A workflow cannot be named 'user', the author of users' messages."
            )
        return value

    @field_validator("edges", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise WorkflowConfigurationError(
                f"edges is a list of edges and chains, not a {type(value).__name__}."
            )
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def model_post_init(self, context: Any, /) -> None:
        """Make and check the graph.

        Raises:
            GraphValidationError: The graph is not well formed.
            StateSchemaError: A function of the graph reads a state that `state_schema` lacks.
            WorkflowConfigurationError: The edges are not written correctly.
        """
        super().model_post_init(context)
        if self.edges and self.graph is None:
            self.graph = Graph.from_edge_items(self.edges)
        if self.state_schema is not None and self.graph is not None:
            self._check_parameters(set(self.state_schema.model_fields), self.state_schema.__name__)

    def _check_parameters(self, declared: set[str], schema: str) -> None:
        """Check what the functions of the graph read from the state (GR-40)."""
        functions = (node for node in self.static_children() if isinstance(node, FunctionNode))
        for node in functions:
            for name in node.parameters.read_from_state:
                if name not in _NO_STATE and name not in declared:
                    raise StateSchemaError(
                        f"FunctionNode {node.name!r} parameter {name!r} is not declared in "
                        f"state_schema {schema!r}. Declared fields: {sorted(declared)}"
                    )

    def _iter_static_children(self) -> Iterator[BaseNode]:
        if self.graph is not None:
            yield from (node for node in self.graph.nodes if node is not START)
