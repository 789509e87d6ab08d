"""Finds the nodes of a graph, and refuses those that the runtime would not run as they say."""

from collections.abc import Iterator, Mapping, Sequence

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.errors import AgentDefinitionError
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.tool_node import ToolNode
from durable_adk.graph.workflow import Workflow
from durable_adk.wire.tool_contract import ToolContract


def node_at_path(root: BaseNode, path: str) -> BaseNode | None:
    """Return the node at the path of a run, ``wf@1/inner@2/a@1``, by its names, or None."""
    nodes = nodes_on_path(root, path)
    return nodes[-1] if len(nodes) == path.count("/") + 1 else None


def nodes_on_path(
    root: BaseNode, path: str, called: Mapping[str, BaseNode] | None = None
) -> list[BaseNode]:
    """Return the nodes along the path of a run, from the root, up to one that is not found.

    Args:
        root: The root.
        path: The path.
        called: The nodes that the code of others has called, by the paths of their runs.
    """
    parts = path.split("/")
    for end in range(len(parts), 0, -1):
        before = "/".join(parts[:end])
        node = (called or {}).get(before)
        if node is not None:
            above = nodes_on_path(root, before.rpartition("/")[0], called)
            return [*above, *_below(node, parts[end:])]
    first = parts[0].partition("@")[0]
    begin = root.find_agent(first) if isinstance(root, BaseAgent) else None
    if begin is None and root.name != first:
        return []
    if len(parts) > 1 and not isinstance(root, BaseAgent | Workflow):
        return [root, *_below(root, parts[2:])]  # the only node of its graph
    return _below(begin or root, parts[1:])


def _below(node: BaseNode, parts: Sequence[str]) -> list[BaseNode]:
    """Return a node, and those below it along the rest of a path, up to one that is not found."""
    nodes = [node]
    for part in parts:
        name = part.partition("@")[0]
        found = next((one for one in _children(nodes[-1]) if one.name == name), None)
        if found is None:
            break
        nodes.append(found)
    return nodes


def agents_in(node: BaseNode) -> list[BaseAgent]:
    """Return the agents that are nodes, without their sub-agents; an agent is its own."""
    if isinstance(node, BaseAgent):
        return [node]
    return [agent for child in node.static_children() for agent in agents_in(child)]


def graphs_in(node: BaseNode) -> list[Workflow]:
    """Return a node's graphs, each before those in it; a graph is its own first one."""
    own = [node] if isinstance(node, Workflow) else []
    return [*own, *(graph for child in node.static_children() for graph in graphs_in(child))]


def check_nodes(node: BaseNode) -> None:
    """Refuse options of a graph's nodes that would be ignored.

    Raises:
        AgentDefinitionError: A node has one; the message names it.
    """
    if is_once(node) and node.retry_config is not None:
        raise AgentDefinitionError(
            f"Tool {node.name!r} has the contract at_most_once, so its node cannot have a "
            "retry_config: leave it out."
        )
    if isinstance(node, ParallelWorker) and is_once(node.node):
        raise AgentDefinitionError(
            f"Node {node.name!r} runs for each item of a list, which the contract at_most_once "
            "does not allow: call the tool from an agent."
        )
    if node.task_queue is not None and isinstance(node, BaseAgent | Workflow | ParallelWorker):
        raise AgentDefinitionError(
            f"Node {node.name!r} has a task_queue, which {type(node).__name__} does not use: set "
            "it on the functions and tools in it, which run in activities."
        )
    for child in [] if isinstance(node, BaseAgent) else node.static_children():
        check_nodes(child)


def check_called(node: BaseNode) -> None:
    """Refuse a node that code must not call: a restore could not tell that it has begun.

    Raises:
        AgentDefinitionError: It is a tool that runs at most once, or contains one.
    """
    if is_once(node):
        raise AgentDefinitionError(
            f"Tool {node.name!r} has the contract at_most_once, and cannot be called with "
            "run_node: make it a node of the graph."
        )
    for child in [] if isinstance(node, BaseAgent) else node.static_children():
        check_called(child)


def is_once(node: BaseNode) -> bool:
    """Return whether a node is a tool that runs at most once."""
    return isinstance(node, ToolNode) and node.tool.contract is ToolContract.AT_MOST_ONCE


def graph_tools(agent: BaseAgent) -> list[BaseNode]:
    """Return the graphs that an agent, or one below it, uses as tools."""
    return [graph for one in agent.walk() if isinstance(one, LlmAgent) for graph in one.graph_tools]


def _children(node: BaseNode) -> Iterator[BaseNode]:
    """Yield the nodes of a graph; those of a worker are its node's, which has its name.

    Of an agent, they are what calls run: the agents below it, and graphs.
    """
    if isinstance(node, BaseAgent):
        yield from node.walk()[1:]
        yield from graph_tools(node)
        return
    children = node.static_children()
    yield from children
    for child in children:
        if isinstance(child, ParallelWorker):
            yield from child.static_children()
