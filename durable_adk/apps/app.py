"""An app: a name and the agents behind it."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.context_cache_config import ContextCacheConfig
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.compaction import EventsCompactionConfig
from durable_adk.apps.graph_nodes import (
    agents_in,
    check_nodes,
    graph_tools,
    graphs_in,
    node_at_path,
    nodes_on_path,
)
from durable_adk.apps.graph_record import kind_of, manifest_of
from durable_adk.apps.resumability_config import ResumabilityConfig
from durable_adk.errors import AgentDefinitionError, AgentNotFoundError
from durable_adk.google_objects import all_from_google_adk, from_google_adk
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.data import validated
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.workflow import Workflow
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.run_config import Budget
from durable_adk.wire.steps import NodeStep, Step

_OF_NODES = ("retry_config", "timeout", "task_queue", "parallel_worker")
"""Fields of an agent that count where the agent is a node of a graph."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class App(BaseModel):
    """A named tree of agents with its plugins (APP-1, PLG-1)."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = Field(default="", validate_default=True)
    """Default: the root's name (GR-8)."""
    root_agent: BaseNode
    """An agent, a `Workflow` or another node."""
    plugins: list[BasePlugin] = Field(default_factory=list[BasePlugin])
    """In the order in which their hooks run; their names are unique."""
    events_compaction_config: EventsCompactionConfig | None = None
    """When to summarise the events of a growing session; None for never (CMP-1)."""
    budget: Budget | None = None
    """Maximum usage of each invocation; None to use its `RunConfig.budget`."""
    steps_per_activity: int = Field(default=1, ge=1)
    """How many consecutive steps (model calls, tool calls, callbacks) one Temporal activity may
    perform. Above 1 an invocation takes fewer activities and less time; what is stored, and what a
    crash repeats, stays the same. See docs/run/operations.md."""
    resumability_config: ResumabilityConfig | None = None
    """When an invocation waits for a long-running tool (RES-1)."""
    context_cache_config: ContextCacheConfig | None = None
    """Accepted for compatibility with ADK, and ignored; see `ContextCacheConfig`."""
    _manifest: AgentNode | None = PrivateAttr(default=None)
    _called: dict[str, BaseNode] = PrivateAttr(default_factory=dict[str, BaseNode])
    """Nodes that the code of other nodes has called, by the paths of their runs."""
    _plugin_manager: PluginManager = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        """Name the app after its root, if it has no name of its own."""
        if not isinstance(data, dict) or "name" in data:
            return cast("Any", data)
        fields = cast("dict[str, Any]", data)
        name = getattr(fields.get("root_agent"), "name", None)
        return {**fields, "name": name} if isinstance(name, str) else fields

    @field_validator(
        "root_agent",
        "events_compaction_config",
        "resumability_config",
        "context_cache_config",
        mode="before",
    )
    @classmethod
    def _ours(cls, value: Any) -> Any:
        return from_google_adk(value)

    @field_validator("plugins", mode="before")
    @classmethod
    def _our_plugins(cls, value: Any) -> Any:
        return all_from_google_adk(value)

    @field_validator("name")
    @classmethod
    def _usable_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value) or value == "user":
            raise AgentDefinitionError(
                f"The app name {value!r} must start with a letter, hold only letters, digits, "
                "'_' and '-', at most 64 of them, and not be 'user'."
            )
        return value

    def model_post_init(self, context: Any, /) -> None:
        """Check that agent names are unique, and create the plugin manager.

        Raises:
            AgentDefinitionError: Two agents have the same name, including agents used as tools
                (steps refer to agents by name), two plugins have the same name, or an agent or a
                node has an option that does not work yet (AGT-10).
        """
        super().model_post_init(context)
        self._plugin_manager = PluginManager(self.plugins)
        for graph in [self.root_agent, *self._graph_tools()]:
            check_nodes(graph)
        for agent in self.agents():
            _check_mode(agent, root=self.root_agent, nodes=self._nodes())
            if self.is_agent or agent not in self._nodes():
                _check_no_node(agent)
        nodes = [agent for graph in self._graph_tools() for agent in agents_in(graph)]
        _check_no_custom(nodes)
        within = {id(agent) for node in nodes for agent in node.walk()}
        named = [agent for agent in self.agents() if id(agent) not in within]
        names = [agent.name for agent in named] if self.is_agent else []
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise AgentDefinitionError(
                f"Agent name {twice[0]!r} occurs twice in app {self.name!r}; names are unique, "
                "also those of agents in AgentTools."
            )

    @property
    def called(self) -> dict[str, BaseNode]:
        """A copy of the nodes of `with_called`."""
        return dict(self._called)

    def with_called(self, nodes: dict[str, BaseNode]) -> Self:
        """Return the app with nodes that the code of a node calls (GR-150).

        Args:
            nodes: The nodes, by the paths of their runs; more may come later.
        """
        extended = self.model_copy()
        extended._called = nodes  # noqa: SLF001 - a copy of this app
        return extended

    @property
    def is_agent(self) -> bool:
        """Whether the root is an agent, and not a graph."""
        return isinstance(self.root_agent, BaseAgent)

    @property
    def plugin_manager(self) -> PluginManager:
        """The manager that runs the plugins' hooks."""
        return self._plugin_manager

    def agents(self) -> list[BaseAgent]:
        """Return all agents: the tree or graph, and agents used as tools with their sub-agents."""
        found: dict[int, BaseAgent] = {}
        waiting = agents_in(self.root_agent)
        waiting += [agent for node in self._called.values() for agent in agents_in(node)]
        while waiting:
            for agent in waiting.pop(0).walk():
                if id(agent) not in found:
                    found[id(agent)] = agent
                    waiting += _agents_used_as_tools(agent)
        return list(found.values())

    def _nodes(self) -> list[BaseAgent]:
        """Return the agents that are the root, or nodes of a graph."""
        graphs = [self.root_agent, *self._graph_tools()]
        return [agent for graph in graphs for agent in agents_in(graph)]

    def _graph_tools(self) -> list[BaseNode]:
        """Return the graphs that agents use as tools, each once."""
        found = [graph for agent in self.agents() for graph in graph_tools(agent)]
        return list({id(graph): graph for graph in found}.values())

    def graphs(self) -> list[Workflow]:
        """Return all graphs of the app, each before those in it."""
        roots = [self.root_agent, *self._graph_tools()]
        return [graph for root in roots for graph in graphs_in(root)]

    def manifest(self) -> AgentNode:
        """Return the agent manifest that an invocation records when it opens; cached (D6)."""
        if self._manifest is None:
            self._manifest = manifest_of(self.root_agent)
        return self._manifest

    async def close(self, plugin_manager: PluginManager | None = None) -> None:
        """Close every agent and every plugin, in the event loop that ran them.

        Args:
            plugin_manager: A runner's own manager of the app's plugins.

        Raises:
            CallbackError: A plugin could not be closed; all others have been closed.
        """
        try:
            for agent in self.agents():
                await agent.close()
        finally:
            await (plugin_manager or self.plugin_manager).close()

    @property
    def is_resumable(self) -> bool:
        """Whether `resumability_config` enables resumability."""
        return self.resumability_config is not None and self.resumability_config.is_resumable

    def find_agent(self, name: str) -> BaseAgent:
        """Return the agent with this name.

        Raises:
            AgentNotFoundError: The app does not have this agent, or no longer has it.
        """
        agents = self.agents()
        agent = next((agent for agent in agents if agent.name == name), None)
        if agent is None:
            known = ", ".join(agent.name for agent in agents)
            raise AgentNotFoundError(
                f"App {self.name!r} has no agent {name!r}; its agents are {known}."
            )
        return agent

    def node_of(self, step: Step) -> BaseNode:
        """Return the agent or the node of a step.

        An answer that is the output of a node needs no code of it: what is around the node is
        returned then, so that a deploy may remove a node that waits for its answer.

        Raises:
            AgentNotFoundError: The app does not have it, or no longer has it.
        """
        if step.site is None:  # a hook of the run, or of an event, has the name of its author
            graphs = [self.root_agent, *self.graphs()]
            named = (one for one in graphs if one.name == step.agent)
            return next(named, None) or self.find_agent(step.agent)
        path = step.site.path
        if isinstance(step, NodeStep) and step.answers:
            path = path.rpartition("/")[0] or path
        node = self._at(path)
        if not isinstance(node, BaseAgent):
            return node
        return node.find_agent(step.agent) or self.find_agent(step.agent)

    def node_at(self, step: NodeStep) -> BaseNode:
        """Return the node whose code a step runs.

        Raises:
            AgentNotFoundError: The app does not have it, or no longer has it.
        """
        node = self._at(step.named.path)
        if kind_of(node) != step.kind:
            raise AgentNotFoundError(
                f"Node {step.node!r} ({step.named.path}) of the graph that was recorded when the "
                f"invocation began was a {step.kind}, and is a {kind_of(node)} in app "
                f"{self.name!r} now."
            )
        return node

    def items_at(self, path: str) -> Callable[[Any], list[Any]]:
        """Return what splits the input of the worker at the path of a run.

        Raises:
            AgentNotFoundError: The app does not have the worker, or no longer has it.
        """
        node = self._at(path)
        if not isinstance(node, ParallelWorker):
            raise AgentNotFoundError(
                f"Node {node.name!r} ({path}) of the graph that was recorded when the invocation "
                f"began was a parallel worker, and is none in app {self.name!r} now."
            )
        return node.items

    def state_schema_at(self, path: str) -> type[BaseModel] | None:
        """Return the schema of the state for the node at the path of a run (GR-200).

        It is the node's own, or that of the nearest node around it; None: there is none.
        """
        nodes = nodes_on_path(self.root_agent, path, self._called)
        schemas = (node.state_schema for node in reversed(nodes))
        return next((schema for schema in schemas if schema is not None), None)

    def input_schema_at(self, path: str) -> Any:
        """Return the `input_schema` of the graph at the path of a run; None: it has none.

        Raises:
            AgentNotFoundError: The app does not have the graph, or no longer has it.
        """
        return self._at(path).input_schema

    def output_of(self, value: Any, output_for: Sequence[str]) -> Any:
        """Return an output as the graphs that end with it have it (GR-190).

        Args:
            value: The output of a node.
            output_for: See `NodeSite.output_for`.

        Raises:
            ValidationError: It does not fit the `output_schema` of one of them.
        """
        for path in output_for[1:]:
            nodes = nodes_on_path(self.root_agent, path, self._called)
            graph = nodes[-1] if len(nodes) == path.count("/") + 1 else None
            if isinstance(graph, Workflow):
                value = validated(graph.output_schema, value)
        return value

    def _at(self, path: str) -> BaseNode:
        """Return the node at the path of a run.

        Raises:
            AgentNotFoundError: The app does not have it, or no longer has it.
        """
        nodes = nodes_on_path(self.root_agent, path, self._called)
        node = nodes[-1] if len(nodes) == path.count("/") + 1 else None
        if node is None:  # below an agent that is used as a tool
            apart = (agent for agent in self.agents() if agent.parent_agent is None)
            node = next((found for one in apart if (found := node_at_path(one, path))), None)
        if node is None:
            raise AgentNotFoundError(
                f"Node {path.rpartition('/')[2].partition('@')[0]!r} ({path}) of the graph that "
                f"was recorded when the invocation began is no longer in app {self.name!r}."
            )
        return node


def _check_mode(agent: BaseAgent, *, root: BaseNode, nodes: list[BaseAgent]) -> None:
    if not isinstance(agent, LlmAgent) or agent.mode in (None, "chat"):
        return
    if agent is root and agent.mode == "single_turn":
        raise AgentDefinitionError(
            "LlmAgent as root agent must have mode='chat' or 'task', but got mode='single_turn'."
        )
    if agent.parent_agent is None and agent not in nodes and agent.mode == "task":
        raise AgentDefinitionError(
            f"Agent {agent.name!r} has mode='task', and so cannot be used as an AgentTool, whose "
            "conversation no client sees: make it a sub-agent of the agent that hands out the task."
        )
    if agent.parent_agent is not None and not isinstance(agent.parent_agent, LlmAgent):
        raise AgentDefinitionError(
            f"Agent {agent.name!r} has mode={agent.mode!r}, which has no meaning below "
            f"{agent.parent_agent.name!r}, a {type(agent.parent_agent).__name__}: make it a "
            "sub-agent of an LlmAgent, or a node of a Workflow."
        )


def _check_no_node(agent: BaseAgent) -> None:
    for field in _OF_NODES:
        if getattr(agent, field, None):
            raise AgentDefinitionError(
                f"Agent {agent.name!r} has {field}, which has an effect in graphs alone: make the "
                "agent a node of a Workflow, or leave it out."
            )


def _agents_used_as_tools(agent: BaseAgent) -> list[BaseAgent]:
    """Return the agents that an agent uses as tools."""
    tools: list[Any] = agent.tools if isinstance(agent, LlmAgent) else []
    own = [tool.agent for tool in tools if isinstance(tool, AgentTool)]
    graphs = agent.graph_tools if isinstance(agent, LlmAgent) else []
    return [*own, *(one for graph in graphs for one in agents_in(graph))]


def _check_no_custom(agents: list[BaseAgent]) -> None:
    """Refuse agents with code of their own in a graph that is a tool.

    Raises:
        AgentDefinitionError: There is one: the session's state would not be there for its code.
    """
    for agent in agents:
        if agent.node().any_custom():
            raise AgentDefinitionError(
                f"Agent {agent.name!r} has a body of its own, and is in a graph that is used as a "
                "tool, where that does not work: make the graph the app's root, or an AgentTool of "
                "the agent."
            )
