"""`Workflow`: a graph of nodes as a node."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field, SkipValidation, field_validator

from durable_adk.errors import StateSchemaError, WorkflowConfigurationError
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.compiled import Graph
from durable_adk.graph.edges import EdgeItem
from durable_adk.graph.function_node import FunctionNode

_NO_STATE = ("ctx", "node_input", "self")


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
