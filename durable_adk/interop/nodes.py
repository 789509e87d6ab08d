"""Conversion of google-adk's graphs, and of the nodes in them, to this package's."""

# pyright: reportPrivateUsage=false
# google-adk keeps what its nodes are made of private; `_require_parts` checks that it is there.

from collections.abc import AsyncGenerator, Callable
from functools import cache
from typing import Any, Self, cast, get_args

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.events.request_input import RequestInput as AdkRequestInput
from google.adk.version import __version__ as adk_version
from google.adk.workflow import (
    START as ADK_START,
    BaseNode as AdkBaseNode,
    FunctionNode as AdkFunctionNode,
    JoinNode as AdkJoinNode,
    Node as AdkNode,
    Workflow as AdkWorkflow,
)
from pydantic import BaseModel, PrivateAttr

from durable_adk.calling.closing import closing
from durable_adk.context.activity import Context, ReadonlyContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.event import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.binding import NodeParameters
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.tool_node import ToolNode
from durable_adk.graph.workflow import Graph, Workflow
from durable_adk.interop.agents import our_agent
from durable_adk.interop.context import adk_context, shared_context
from durable_adk.interop.options import node_fields
from durable_adk.interop.proxies import AgentProxy
from durable_adk.interop.tools import our_tool
from durable_adk.interop.values import our_auth_config, our_event
from durable_adk.tools._parameters import namespace_of, resolve_annotation

try:
    from google.adk.workflow._parallel_worker import _ParallelWorker as AdkParallelWorker
    from google.adk.workflow._tool_node import _ToolNode as AdkToolNode
except ImportError:  # `_require_parts` says so, once there is a graph
    AdkParallelWorker = AdkToolNode = None

Made = dict[int, BaseNode]
"""The nodes converted so far, by the ids of google-adk's."""
_OWN_CODE = ("_run_impl", "_bind_parameters", "_to_event", "_coerce_param")
"""What makes a subclass of google-adk's `FunctionNode` more than a function."""


def our_node(node: Any, made: Made | None = None) -> BaseNode:
    """Convert a node of google-adk: a graph, an agent, or any other, with what is in it.

    Raises:
        AgentDefinitionError: It cannot run durably, or this version of google-adk has its nodes
            in another form; the message gives the reason.
    """
    made = {} if made is None else made
    if node is ADK_START:
        return START
    if isinstance(node, BaseNode):
        return node  # google-adk's AgentTool checks no class
    if isinstance(node, AdkBaseAgent | AgentProxy):
        return our_agent(node, made)
    if id(node) not in made:
        made[id(node)] = _made(node, made)
    return made[id(node)]


def _made(adk: AdkBaseNode, made: Made) -> BaseNode:
    _require_parts()
    of_graph: Any = adk
    match of_graph:
        case AdkWorkflow():
            return _workflow(of_graph, made)
        case AdkNode(parallel_worker=True):
            return _worker(adk, adk.model_copy(update={"parallel_worker": False}), made)
        case _ if isinstance(adk, cast("Any", AdkParallelWorker)):
            return _worker(adk, of_graph._node, made)
        case _ if isinstance(adk, cast("Any", AdkToolNode)):
            tool: Any = our_tool(of_graph.tool, our_agent)
            return ToolNode(**node_fields(adk), tool=tool)
        case _:
            return _code(adk)


def _code(adk: AdkBaseNode) -> BaseNode:
    if _has_code_of(adk, AdkFunctionNode, *_OWN_CODE):
        return FunctionNodeOfAdk.of(cast("AdkFunctionNode", adk))
    if _has_code_of(adk, AdkJoinNode, "_run_impl", "_validate_input_data"):
        return JoinNode(**node_fields(adk))
    return NodeOfAdk.of(adk)


def _has_code_of(adk: AdkBaseNode, kind: type[AdkBaseNode], *methods: str) -> bool:
    """Return whether a node is of a class, and its own class overrides none of the methods."""
    own = cast("Any", type(adk))
    return isinstance(adk, kind) and all(
        getattr(own, name) is getattr(kind, name) for name in methods
    )


def _workflow(adk: AdkWorkflow, made: Made) -> Workflow:
    if not _has_code_of(adk, AdkWorkflow, "_run_impl"):
        raise AgentDefinitionError(
            f"{type(adk).__name__} {adk.name!r} overrides _run_impl of Workflow, and durable_adk "
            "runs the edges itself: put the code into a node of the graph."
        )
    edges = [
        Edge(our_node(edge.from_node, made), our_node(edge.to_node, made), edge.route)
        for edge in (adk.graph.edges if adk.graph else ())
    ]
    return Workflow(
        **node_fields(adk),
        max_concurrency=adk.max_concurrency,
        graph=Graph(edges) if edges else None,
    )


def _worker(adk: AdkBaseNode, item: AdkBaseNode, made: Made) -> ParallelWorker:
    most = cast("Any", adk).max_parallel_workers
    return ParallelWorker(**node_fields(adk), node=our_node(item, made), max_parallel_workers=most)


class NodeOfAdk(BaseNode):
    """A node of google-adk with code of its own, which gets google-adk's context."""

    _adk: AdkBaseNode = PrivateAttr()

    @classmethod
    def of(cls, adk: AdkBaseNode) -> Self:
        """Convert a node."""
        made = cls(**node_fields(adk))
        made._adk = adk
        return made

    @property
    def adk(self) -> AdkBaseNode:
        """google-adk's node."""
        return self._adk

    @property
    def _requires_all_predecessors(self) -> bool:
        return self._adk._requires_all_predecessors

    def _validate_input_data(self, data: Any) -> Any:
        return data  # google-adk's `run` does it, and may convert it

    def _validate_output_data(self, data: Any) -> Any:
        return data

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        with shared_context(ctx) as shared:
            async with closing(self._adk.run(ctx=shared, node_input=node_input)) as events:
                async for event in events:
                    made = our_event(event)
                    shared.note(made)
                    yield made


class FunctionNodeOfAdk(FunctionNode):
    """A `FunctionNode` of google-adk: its function gets google-adk's context."""

    _adk: AdkFunctionNode = PrivateAttr()
    _takes_ours: bool = PrivateAttr(default=False)

    @classmethod
    def of(cls, adk: AdkFunctionNode) -> Self:
        """Convert a node."""
        func = adk._func
        config = adk.auth_config
        fields = node_fields(adk) | {
            "output_schema": None,
            "auth_config": config and our_auth_config(config),
            "require_confirmation": adk.require_confirmation,
            "parameter_binding": adk.parameter_binding,
        }
        made = cls(**cast("Any", {"func": func, **fields}))
        made._adk, made._takes_ours = adk, _takes_ours(made.parameters, func)
        made.input_schema = adk.input_schema
        if adk.output_schema not in (Event, RequestInput):  # of a function that is annotated so
            made.output_schema = adk.output_schema
        return made

    @property
    def adk(self) -> AdkFunctionNode:
        """google-adk's node."""
        return self._adk

    def bind(self, ctx: Context, node_input: Any) -> Any:
        """See base class; the context is google-adk's, unless the annotation is one of ours."""
        bound = super().bind(ctx, node_input)
        name = self.parameters.context
        if name in bound.arguments and not self._takes_ours:
            bound.arguments[name] = adk_context(ctx)
        return bound

    async def _must_confirm(self, ctx: Context, arguments: dict[str, Any], node_input: Any) -> bool:
        if not callable(self.require_confirmation):
            return self.require_confirmation
        given = {name: one for name, one in arguments.items() if name != self.parameters.context}
        rule = {"require_confirmation": self.require_confirmation}
        return await self._adk.model_copy(update=rule)._check_require_confirmation(
            adk_context(ctx), node_input=node_input, bound_args=given
        )

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        run = super()._run_impl(ctx=ctx, node_input=node_input)
        if self._takes_ours:
            async with closing(run) as items:
                async for item in items:
                    yield item
            return
        with shared_context(ctx) as shared:
            async with closing(run) as items:
                async for item in items:
                    if item is not None:
                        shared.note(item)
                    yield item


def function_node(function: Callable[..., Any], **options: Any) -> FunctionNodeOfAdk:
    """Return the node of a function that takes google-adk's context."""
    made = FunctionNodeOfAdk(**cast("Any", {"func": function, **options}))
    made._adk = AdkFunctionNode(func=function, name=made.name)
    return made


def our_request_input(request: AdkRequestInput) -> RequestInput:
    """Convert a question of google-adk."""
    return RequestInput(**dict(request))


def _takes_ours(parameters: NodeParameters, func: Callable[..., Any]) -> bool:
    """Return whether a function's context is annotated as one of this package."""
    parameter = parameters.signature.parameters.get(parameters.context)
    if parameter is None:
        return False
    try:
        annotation = resolve_annotation(parameter.annotation, namespace_of(func), extras=False)
    except NameError:  # it is imported for the type checker alone
        return False
    kinds = get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, ReadonlyContext) for kind in kinds)


@cache
def _require_parts() -> None:
    """Check that google-adk's nodes have the parts that are read here.

    Raises:
        AgentDefinitionError: One is missing; the message names it and the version.
    """
    parts: list[tuple[type[BaseModel] | None, str, str]] = [
        (AdkFunctionNode, "FunctionNode", "_func"),
        (AdkParallelWorker, "_ParallelWorker", "_node"),
        (AdkParallelWorker, "_ParallelWorker", "max_parallel_workers"),
        (AdkToolNode, "_ToolNode", "tool"),
        (AdkWorkflow, "Workflow", "graph"),
    ]
    for kind, name, part in parts:
        if kind is None or part not in {*kind.__private_attributes__, *kind.model_fields}:
            raise AgentDefinitionError(
                f"google-adk {adk_version} has no {name}.{part}, which durable_adk reads graphs "
                "from: install google-adk 2.13, or import Workflow and its nodes from "
                "durable_adk.workflow."
            )
