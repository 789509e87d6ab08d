"""Records the graphs of an app as data, when an invocation opens (D6)."""

from collections.abc import Sequence

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.tool_node import ToolNode
from durable_adk.graph.workflow import Workflow
from durable_adk.wire.manifest import (
    AgentNode,
    GraphEdge,
    GraphNode,
    GraphNodeKind,
    GraphRecord,
)


def manifest_of(node: BaseNode) -> AgentNode:
    """Return the manifest of an agent, or of a graph with the agents and graphs in it.

    A node that is neither is recorded as a graph of this node alone.
    """
    if isinstance(node, BaseAgent):
        return node.node()
    nodes = _nodes(node)
    edges = _edges(node)
    is_graph = isinstance(node, Workflow)
    return AgentNode(
        name=node.name,
        kind="graph",
        graph=GraphRecord(
            nodes=[record_of(one) for one in nodes],
            edges=[_edge(edge) for edge in edges],
            window=node.max_concurrency if is_graph else None,
            reads=is_graph and node.input_type is not None,
        ),
        children=[manifest_of(one) for one in driven_nodes(node)],
    )


def manifest_of_call(node: BaseNode, caller: str) -> AgentNode:
    """Return the manifest of a node that another one's code calls, as a graph of it alone.

    Args:
        node: The node.
        caller: The author of the events of nodes that are no agents (GR-77).
    """
    driven = _driven(node)
    return AgentNode(
        name=caller,
        kind="graph",
        graph=GraphRecord(nodes=[record_of(node)]),
        children=[] if driven is None else [manifest_of(driven)],
    )


def driven_nodes(node: BaseNode) -> list[BaseNode]:
    """Return the agents and graphs that are nodes of a graph, or run for the items of one."""
    return [one for one in map(_driven, _nodes(node)) if one is not None]


def _nodes(node: BaseNode) -> list[BaseNode]:
    return node.static_children() if isinstance(node, Workflow) else [node]


def _edges(node: BaseNode) -> Sequence[Edge]:
    if isinstance(node, Workflow):
        return node.graph.edges if node.graph else ()
    return (Edge(START, node),)


def _driven(node: BaseNode) -> BaseNode | None:
    """Return the agent or graph that a node is, or runs for its items."""
    if isinstance(node, ParallelWorker):
        return _driven(node.node)
    return node if isinstance(node, BaseAgent | Workflow) else None


def kind_of(node: BaseNode) -> GraphNodeKind:
    """Return the kind by which a graph's record names a node."""
    match node:
        case BaseAgent() | Workflow():
            return "agent"
        case FunctionNode():
            return "function"
        case ToolNode():
            return "tool"
        case JoinNode():
            return "join"
        case ParallelWorker():
            return "worker"
        case _:
            return "node"


def record_of(node: BaseNode) -> GraphNode:
    """Return the record of a node."""
    return GraphNode(
        name=node.name,
        kind=kind_of(node),
        joins=node.requires_all_predecessors,
        reruns=node.rerun_on_resume,
        calls=node.rerun_on_resume and kind_of(node) in ("function", "node"),
        waits_for_output=node.wait_for_output,
        retry=node.retry_config and node.retry_config.model_dump(exclude_none=True),
        timeout=node.timeout,
        task_queue=node.task_queue,
        contract=node.tool.contract if isinstance(node, ToolNode) else None,
        window=node.max_parallel_workers if isinstance(node, ParallelWorker) else None,
        inner=record_of(node.node) if isinstance(node, ParallelWorker) else None,
    )


def _edge(edge: Edge) -> GraphEdge:
    return GraphEdge(source=edge.from_node.name, target=edge.to_node.name, route=edge.route)
