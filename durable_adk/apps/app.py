"""An app: a name and the agents behind it."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.context_cache_config import ContextCacheConfig
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.compaction import EventsCompactionConfig
from durable_adk.apps.resumability_config import ResumabilityConfig
from durable_adk.errors import AgentDefinitionError, AgentNotFoundError
from durable_adk.google_objects import all_from_google_adk, from_google_adk
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.run_config import Budget

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class App(BaseModel):
    """A named tree of agents with its plugins (APP-1, PLG-1)."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str
    root_agent: BaseAgent
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
    _plugin_manager: PluginManager = PrivateAttr()

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
                (steps refer to agents by name), two plugins have the same name, or an agent has a
                mode that does not run yet (AGT-10).
        """
        super().model_post_init(context)
        self._plugin_manager = PluginManager(self.plugins)
        for agent in self.agents():
            _check_mode(agent)
        names = [agent.name for agent in self.agents()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise AgentDefinitionError(
                f"Agent name {twice[0]!r} occurs twice in app {self.name!r}; names are unique, "
                "also those of agents in AgentTools."
            )

    @property
    def plugin_manager(self) -> PluginManager:
        """The manager that runs the plugins' hooks."""
        return self._plugin_manager

    def agents(self) -> list[BaseAgent]:
        """Return all agents: the tree, and agents used as tools with their sub-agents."""
        found: dict[int, BaseAgent] = {}
        waiting = [self.root_agent]
        while waiting:
            for agent in waiting.pop(0).walk():
                if id(agent) not in found:
                    found[id(agent)] = agent
                    waiting += _agents_used_as_tools(agent)
        return list(found.values())

    def manifest(self) -> AgentNode:
        """Return the agent manifest that an invocation records when it opens; cached (D6)."""
        if self._manifest is None:
            self._manifest = self.root_agent.node()
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


def _check_mode(agent: BaseAgent) -> None:
    if isinstance(agent, LlmAgent) and agent.mode in ("task", "single_turn"):
        raise AgentDefinitionError(
            f"Agent {agent.name!r} has mode={agent.mode!r}, which is not supported: give the agent "
            "that hands out the task an AgentTool round this one, instead of this one as sub-agent."
        )


def _agents_used_as_tools(agent: BaseAgent) -> list[BaseAgent]:
    """Return the agents that an agent uses as tools."""
    tools: list[Any] = agent.tools if isinstance(agent, LlmAgent) else []
    return [tool.agent for tool in tools if isinstance(tool, AgentTool)]
