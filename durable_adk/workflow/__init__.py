"""Graph workflows: ADK's names for nodes and the edges between them."""

from durable_adk.errors import NodeTimeoutError
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import Node, node
from durable_adk.graph.retry_config import NodeRetryConfig as RetryConfig
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.graph.workflow import Workflow

__all__ = [
    "DEFAULT_ROUTE",
    "START",
    "BaseNode",
    "Edge",
    "FunctionNode",
    "JoinNode",
    "Node",
    "NodeTimeoutError",
    "RetryConfig",
    "Workflow",
    "node",
]
