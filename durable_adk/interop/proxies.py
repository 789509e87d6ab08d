"""Proxies of this package's agents and tools for google-adk's callbacks."""

# pyright: reportPrivateUsage=false

from typing import Any

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.tools.base_tool import BaseTool as AdkBaseTool
from pydantic import PrivateAttr

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.tools.base_tool import BaseTool, only_runs_here


class ToolProxy(AdkBaseTool):
    """A tool of this package as google-adk's code sees it."""

    def __init__(self, tool: BaseTool) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            is_long_running=tool.is_long_running,
            custom_metadata=tool.custom_metadata,
        )
        self.ours = tool

    def _get_declaration(self) -> Any:
        return self.ours.get_declaration()

    async def run_async(self, **_: Any) -> Any:
        raise only_runs_here(self.ours)


class AgentProxy(AdkBaseAgent):
    """An agent of this package as google-adk's code sees it: name, description, tree."""

    _ours: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, agent: Any, name: str = "") -> "AgentProxy":
        """Return a proxy of an agent, or of a name if this worker does not have the agent."""
        proxy = cls.model_construct(
            name=agent.name if agent else name, description=agent.description if agent else ""
        )
        proxy._ours = agent
        return proxy

    @property
    def ours(self) -> BaseAgent:
        """The agent."""
        return self._ours
