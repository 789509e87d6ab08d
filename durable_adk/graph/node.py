"""`node`, which makes a node of anything that a graph can have, and `Node`, for subclasses."""

import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, overload

from pydantic import Field, model_validator

from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.context.activity import Context
from durable_adk.errors import AgentDefinitionError, WorkflowConfigurationError
from durable_adk.google_objects import from_google_adk, is_from_google_adk, node_from_google_adk
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.binding import ParameterBinding
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.parallel_worker import ParallelWorker, check_max_parallel_workers
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.tool_node import ToolNode
from durable_adk.tools.base_tool import BaseTool, ToolOrToolset, is_function

NodeLike: TypeAlias = BaseNode | BaseTool | Callable[..., Any] | Literal["START"]
"""What a graph can have as a node (GR-18)."""


class NodeOptions(TypedDict, total=False):
    """The options of `node` that change the node itself; None leaves them as they are."""

    name: str | None
    rerun_on_resume: bool | None
    retry_config: NodeRetryConfig | None
    timeout: float | None
    task_queue: str | None
    auth_config: AuthConfig | None
    require_confirmation: bool | Callable[..., Any] | None
    parameter_binding: ParameterBinding


class ParallelNodeOptions(NodeOptions, total=False):
    """All options of `node`."""

    parallel_worker: bool
    max_parallel_workers: int | None


_OF_FUNCTIONS = ("require_confirmation", "auth_config")


def is_node_like(item: Any) -> bool:
    """Return whether `build_node` makes a node of it, or says itself why it does not."""
    if isinstance(item, str):
        return item == "START"
    if inspect.isclass(item) and issubclass(item, BaseNode | ToolOrToolset):
        return False
    ours = isinstance(item, BaseNode | BaseTool) or is_function(cast("object", item))
    return ours or is_from_google_adk(item)


def build_node(node_like: Any, **options: Unpack[NodeOptions]) -> BaseNode:
    """Return the node that a graph has for an object (GR-19).

    Raises:
        WorkflowConfigurationError: It cannot be a node, or has not these options.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if given.get("parameter_binding") == "state":
        del given["parameter_binding"]
    ours = from_google_adk(node_like)
    if not is_node_like(ours) or is_from_google_adk(ours):
        raise WorkflowConfigurationError(
            f"Invalid node type: {type(ours)}. Node must be a BaseNode, a BaseAgent, a BaseTool, "
            "or a callable."
        )
    if isinstance(ours, str) or ours is START:
        return _without_options(given)
    if isinstance(ours, BaseTool):
        _check_options(ours, given)
        return ToolNode(tool=ours, **given)
    if not isinstance(ours, BaseNode):
        if given.get("require_confirmation") or given.get("auth_config"):
            given.setdefault("rerun_on_resume", True)
        return node_from_google_adk(ours, given) or FunctionNode(func=ours, **given)
    _check_options(ours, given)
    return ours.in_graph(**given)


def _without_options(given: dict[str, Any]) -> BaseNode:
    if given:
        raise WorkflowConfigurationError(f"START takes no options, got {', '.join(given)}.")
    return START


def _check_options(ours: BaseNode | BaseTool, given: dict[str, Any]) -> None:
    """Refuse options that have no meaning for this kind of node (GR-38)."""
    kind = type(ours).__name__
    if "parameter_binding" in given:
        raise WorkflowConfigurationError(
            f"parameter_binding is only supported for callable functions, got {kind}."
        )
    for option in _OF_FUNCTIONS:
        if given.get(option) and not isinstance(ours, FunctionNode):
            raise WorkflowConfigurationError(
                f"{option} is only supported on FunctionNode, got {kind}."
            )
    if isinstance(ours, BaseTool) and given.pop("rerun_on_resume", True) is False:
        raise WorkflowConfigurationError("The node of a tool always has rerun_on_resume=True.")


@overload
def node(**options: Unpack[ParallelNodeOptions]) -> Callable[[Callable[..., Any]], BaseNode]: ...


@overload
def node(node_like: NodeLike, /, **options: Unpack[ParallelNodeOptions]) -> BaseNode: ...


def node(
    node_like: NodeLike | None = None, **options: Unpack[ParallelNodeOptions]
) -> BaseNode | Callable[[Callable[..., Any]], BaseNode]:
    """Make a node, or a copy of one with other options (GR-21).

    ``node(thing, name="x")`` is a function, ``@node`` a decorator, and ``@node(name="x")`` makes a
    decorator.

    Args:
        node_like: A function, a tool, an agent or a node.
        **options: `name`; `rerun_on_resume`; `retry_config`; `timeout` in seconds;
            `task_queue`, not of agents and graphs; of functions `auth_config`,
            `require_confirmation` and `parameter_binding`; `parallel_worker`, to run the node once
            for each item of its input, at most `max_parallel_workers` at once. The other options
            are then those of each item.

    Raises:
        WorkflowConfigurationError: It cannot be a node, or has not these options.
    """
    check_max_parallel_workers(
        parallel_worker=options.get("parallel_worker", False),
        number=options.get("max_parallel_workers"),
    )
    if node_like is None:
        return lambda function: node(function, **options)
    worker = options.pop("parallel_worker", False)
    number = options.pop("max_parallel_workers", None)
    built = build_node(node_like, **options)
    return ParallelWorker(node=built, max_parallel_workers=number) if worker else built


class Node(BaseNode):
    """A node for subclasses, which define `run_node_impl` (GR-22)."""

    parallel_worker: bool = Field(default=False, frozen=True)
    """Whether the node runs once for each item of its input."""
    max_parallel_workers: int | None = Field(default=None, frozen=True)
    """Maximum number of items at once; None: no limit."""

    @model_validator(mode="after")
    def _consistent(self) -> "Node":
        check_max_parallel_workers(
            parallel_worker=self.parallel_worker, number=self.max_parallel_workers
        )
        return self

    async def run_node_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        """Yield the run's events, questions and output; subclasses override this."""
        del ctx, node_input
        raise AgentDefinitionError(f"{type(self).__name__} does not define run_node_impl.")
        yield  # makes this an async generator

    def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        return self.run_node_impl(ctx=ctx, node_input=node_input)

    def in_graph(self, **changes: Any) -> BaseNode:
        """See `BaseNode.in_graph`; a parallel worker of the node, if it is to be one."""
        own = super().in_graph(**changes)
        if not self.parallel_worker:
            return own
        item = own.model_copy(update={"parallel_worker": False, "max_parallel_workers": None})
        return ParallelWorker(
            node=item,
            max_parallel_workers=self.max_parallel_workers,
            description=own.description,
            retry_config=own.retry_config,
            timeout=own.timeout,
            state_schema=own.state_schema,
        )
