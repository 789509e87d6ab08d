"""`BaseNode`, the base class of all nodes, and the edges between them."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Self, final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from durable_adk.calling.closing import closing
from durable_adk.context.activity import Context
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.event import Event
from durable_adk.events.request_input import RequestInput, request_input_event
from durable_adk.graph.data import as_output, check_schema, is_data, validated
from durable_adk.graph.names import check_keywords, check_node_name, unknown_keyword
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.routes import Route
from durable_adk.settings import FiniteSeconds
from durable_adk.tools.tool_options import checked_task_queue


class BaseNode(BaseModel):
    """A node of a graph (GR-20).

    Subclasses define `_run_impl`. It yields events, `RequestInput`s and outputs, and may do any
    I/O. The node is also run again, with the same input, after a lost worker.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str
    description: str = ""
    rerun_on_resume: bool = False
    """Whether the node runs again once its question is answered. If not, the answer is its
    output."""
    wait_for_output: bool = False
    """Whether a run without output and route leaves the node waiting for its next input."""
    retry_config: NodeRetryConfig | None = None
    """Which errors are retried; None: none."""
    timeout: FiniteSeconds | None = Field(default=None, gt=0)
    """Seconds that one attempt may take; None: no limit."""
    task_queue: str | None = None
    """Task queue for the node's runs; a worker of this app must poll it. None: that of the
    invocation."""
    input_schema: Any = None
    """Type of the input, which the input is converted to, or its JSON schema, which is not
    checked."""
    output_schema: Any = None
    """Type of the output, or its JSON schema, which is not checked."""
    state_schema: type[BaseModel] | None = None
    """The keys of the state that the node and those below it may write, with their types."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        return check_keywords(cls, data)

    @field_validator("name")
    @classmethod
    def _usable_name(cls, value: str) -> str:
        return check_node_name(value)

    @field_validator("task_queue")
    @classmethod
    def _usable_queue(cls, value: str | None, info: ValidationInfo) -> str | None:
        return checked_task_queue(value, f"node {info.data.get('name')!r}")

    @field_validator("input_schema", "output_schema")
    @classmethod
    def _usable_node_schema(cls, value: Any, info: ValidationInfo) -> Any:
        return check_schema(str(info.field_name), value)

    @final
    async def run(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Event, None]:
        """Run the node's code once; yields what it yields as events (GR-20).

        Args:
            ctx: The node's context.
            node_input: The input; it is converted by `input_schema`.

        Raises:
            ValidationError: The input or an output does not fit its schema.
            StateValueError: An output is not JSON.
        """
        node_input = self._validate_input_data(node_input)
        async with closing(self._run_impl(ctx=ctx, node_input=node_input)) as items:
            async for item in items:
                if item is not None:
                    yield self._event(item)

    def _event(self, item: Any) -> Event:
        if isinstance(item, RequestInput):
            return request_input_event(item)
        event = item if isinstance(item, Event) else Event(output=item)
        if event.output is not None:
            output = self._validate_output_data(event.output)
            event.output = as_output(output, f"the output of node {self.name!r}")
        return event

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        """Yield the run's events, questions and output; subclasses override this."""
        del ctx, node_input
        raise AgentDefinitionError(f"{type(self).__name__} does not define _run_impl.")
        yield  # makes this an async generator

    @property
    def input_type(self) -> Any:
        """The type that the node's code expects as input; None if it does not say."""
        return None if is_data(self.input_schema) else self.input_schema

    def _validate_input_data(self, data: Any) -> Any:
        return validated(self.input_schema, data)

    def _validate_output_data(self, data: Any) -> Any:
        return validated(self.output_schema, data)

    @property
    def _requires_all_predecessors(self) -> bool:
        """Whether the node runs once all its predecessors have ended since its last run."""
        return False

    @property
    def requires_all_predecessors(self) -> bool:
        """See `_requires_all_predecessors`, which subclasses override as in ADK."""
        return self._requires_all_predecessors

    @property
    def never_ends(self) -> bool:
        """Whether the node never gives its successors anything."""
        return False

    def _validate_outgoing_edges(self, edges: list["Edge"]) -> None:
        """Raise GraphValidationError for edges that do not fit; subclasses override this."""

    def validate_outgoing_edges(self, edges: list["Edge"]) -> None:
        """Check the edges from this node; see `_validate_outgoing_edges` (GR-35).

        Raises:
            GraphValidationError: They do not fit the node.
        """
        self._validate_outgoing_edges(edges)

    def validate_predecessor(self, predecessor: "BaseNode") -> None:
        """Check the node of an edge to this one.

        Raises:
            GraphValidationError: This node cannot follow it.
        """

    def _iter_static_children(self) -> Iterator["BaseNode"]:
        """Yield the nodes that are declared as part of this one; subclasses override this."""
        yield from ()

    def static_children(self) -> list["BaseNode"]:
        """Return the nodes that are declared as part of this one."""
        return list(self._iter_static_children())

    def in_graph(self, **changes: Any) -> "BaseNode":
        """Return the node that a graph has for this one: itself, or a copy with changes (GR-19).

        Args:
            **changes: Values of fields.
        """
        return self.with_changes(**changes) if changes else self

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy with other values of fields.

        Raises:
            ValidationError: A value does not fit its field.
            WorkflowConfigurationError: There is no such field.
        """
        known = [*type(self).model_fields]
        for field in changes.keys() - set(known):
            raise unknown_keyword(type(self).__name__, field, known)
        copied = self.model_copy()
        for field, value in changes.items():
            self.__pydantic_validator__.validate_assignment(copied, field, value)
        return copied


START = BaseNode(name="__START__")
"""The node from which a graph's edges begin; it has the graph's input and never runs (GR-4)."""


class Edge(BaseModel):
    """An edge: the end of one node gives another one its input (GR-14)."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    from_node: BaseNode
    to_node: BaseNode
    route: Route | None = None
    """The route, or the routes, of which the first node must emit one; None: any end."""

    def __init__(
        self, from_node: BaseNode, to_node: BaseNode, route: Route | None = None, **others: Any
    ) -> None:
        super().__init__(from_node=from_node, to_node=to_node, route=route, **others)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        return check_keywords(cls, data)
