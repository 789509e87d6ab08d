"""An app's agents, graphs and tools as JSON, for programs without its code."""

from typing import Any, Literal

from google.genai import types
from pydantic import Field

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.agents.loop_agent import LoopAgent
from durable_adk.agents.parallel_agent import ParallelAgent
from durable_adk.agents.sequential_agent import SequentialAgent
from durable_adk.apps.app import App
from durable_adk.apps.graph_record import driven_nodes, manifest_of
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.node_tool import tool_of
from durable_adk.graph.workflow import Workflow
from durable_adk.json_values import JsonModel, to_json_value
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset
from durable_adk.wire.manifest import GraphRecord

AgentKind = Literal[
    "LlmAgent",
    "SequentialAgent",
    "LoopAgent",
    "ParallelAgent",
    "BaseAgent",
    "Workflow",
    "BaseNode",
]


class ToolDescription(JsonModel):
    """A tool of an agent."""

    name: str
    is_agent: bool = False
    """Whether it is an agent used as a tool."""
    declaration: dict[str, Any] | None = None
    """The declaration that the model receives."""


class AgentDescription(JsonModel):
    """An agent and all agents below it, or a graph and all agents and graphs in it."""

    name: str
    kind: AgentKind
    description: str = ""
    instruction: str = ""
    """The instruction, or the name of the function that creates it."""
    model: str | None = None
    tools: list[ToolDescription] = Field(default_factory=list[ToolDescription])
    sub_agents: list["AgentDescription"] = Field(default_factory=list["AgentDescription"])
    graph: GraphRecord | None = None
    """The nodes of a graph; its agents, and the graphs in it, are `sub_agents`."""


class AppDescription(JsonModel):
    """An app."""

    name: str
    root_agent: AgentDescription
    plugins: list[str] = Field(default_factory=list[str])


def described(app: App) -> AppDescription:
    """Return a description of an app, without running any of it."""
    return AppDescription(
        name=app.name,
        root_agent=_root(app.root_agent),
        plugins=[plugin.name for plugin in app.plugins],
    )


def _root(node: BaseNode) -> AgentDescription:
    if isinstance(node, BaseAgent):
        return _agent(node)
    return AgentDescription(
        name=node.name,
        kind="Workflow" if isinstance(node, Workflow) else "BaseNode",
        description=node.description,
        graph=manifest_of(node).graph,
        sub_agents=[_root(one) for one in driven_nodes(node)],
    )


def _agent(agent: BaseAgent) -> AgentDescription:
    found = AgentDescription(name=agent.name, kind=_kind(agent), description=agent.description)
    found.sub_agents = [_agent(one) for one in agent.sub_agents]
    if isinstance(agent, LlmAgent):
        found.instruction = _instruction(agent.instruction)
        found.model = agent.model if isinstance(agent.model, str) else agent.model.model
        found.tools = [_tool(one) for one in agent.tools]
    return found


def _kind(agent: BaseAgent) -> AgentKind:
    for kind in (LlmAgent, SequentialAgent, LoopAgent, ParallelAgent):
        if isinstance(agent, kind):
            return kind.__name__  # pyright: ignore[reportReturnType]: one of the names above
    return "BaseAgent"


def _instruction(declared: Any) -> str:
    if not callable(declared):
        return str(declared)
    name = getattr(declared, "__name__", None) or type(declared).__name__
    return f"<InstructionProvider: {name}>"


def _tool(declared: Any) -> ToolDescription:
    if isinstance(declared, BaseToolset):  # listing its tools may require another machine
        return ToolDescription(name=type(declared).__name__)
    tool: BaseTool = tool_of(declared)
    return ToolDescription(
        name=tool.name, is_agent=isinstance(tool, AgentTool), declaration=_declaration(tool)
    )


def _declaration(tool: BaseTool) -> dict[str, Any] | None:
    found: types.FunctionDeclaration | None = tool.get_declaration()
    return found and to_json_value(found.model_dump(mode="json", by_alias=True, exclude_none=True))
