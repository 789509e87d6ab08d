"""Objects of this package as google-adk's objects see them, until they are taken back."""

# pyright: reportPrivateUsage=false

from collections.abc import Callable
from typing import Any

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.code_executors.base_code_executor import BaseCodeExecutor as AdkBaseCodeExecutor
from google.adk.models.base_llm import BaseLlm as AdkBaseLlm
from google.adk.planners.base_planner import BasePlanner as AdkBasePlanner
from google.adk.plugins.base_plugin import BasePlugin as AdkBasePlugin
from google.adk.tools.base_tool import BaseTool as AdkBaseTool
from google.adk.tools.base_toolset import BaseToolset as AdkBaseToolset
from pydantic import PrivateAttr

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.errors import AgentDefinitionError
from durable_adk.models.base_llm import BaseLlm
from durable_adk.planners.base_planner import BasePlanner
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset


class ToolProxy(AdkBaseTool):
    """A tool of ours."""

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
        raise _runs_here(self.ours)


class ToolsetProxy(AdkBaseToolset):
    """A toolset of ours."""

    def __init__(self, toolset: BaseToolset) -> None:
        super().__init__()
        self.ours = toolset

    async def get_tools(self, *_: Any, **__: Any) -> Any:
        raise _runs_here(self.ours)


class PlannerProxy(AdkBasePlanner):
    """A planner of ours."""

    def __init__(self, planner: BasePlanner) -> None:
        self.ours = planner

    def build_planning_instruction(self, *_: Any, **__: Any) -> Any:
        raise _runs_here(self.ours)

    def process_planning_response(self, *_: Any, **__: Any) -> Any:
        raise _runs_here(self.ours)


class PluginProxy(AdkBasePlugin):
    """A plugin of ours."""

    def __init__(self, plugin: BasePlugin) -> None:
        super().__init__(plugin.name)
        self.ours = plugin


class AgentProxy(AdkBaseAgent):
    """An agent of ours: its name, description and place."""

    _ours: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, agent: Any, name: str = "") -> "AgentProxy":
        """Show an agent, or only a name if this worker has no agent of it."""
        proxy = cls.model_construct(
            name=agent.name if agent else name, description=agent.description if agent else ""
        )
        proxy._ours = agent
        return proxy

    @property
    def ours(self) -> BaseAgent:
        """The agent."""
        return self._ours


class ModelProxy(AdkBaseLlm):
    """A model of ours."""

    _ours: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, model: BaseLlm) -> "ModelProxy":
        """Show a model."""
        proxy = cls(model=model.model)
        proxy._ours = model
        return proxy

    @property
    def ours(self) -> BaseLlm:
        """The model."""
        return self._ours

    def generate_content_async(self, *_: Any, **__: Any) -> Any:
        raise _runs_here(self._ours)


class ExecutorProxy(AdkBaseCodeExecutor):
    """A code executor of ours."""

    _ours: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, executor: BaseCodeExecutor) -> "ExecutorProxy":
        """Show an executor."""
        proxy = cls()
        proxy._ours = executor
        return proxy

    @property
    def ours(self) -> BaseCodeExecutor:
        """The executor."""
        return self._ours

    def execute_code(self, *_: Any, **__: Any) -> Any:
        raise _runs_here(self._ours)


PROXIES = (
    ToolProxy,
    ToolsetProxy,
    AgentProxy,
    ModelProxy,
    PlannerProxy,
    ExecutorProxy,
    PluginProxy,
)

_SHOWN: list[tuple[type[Any], Callable[[Any], Any]]] = [
    (BaseAgent, AgentProxy.of),
    (BaseLlm, ModelProxy.of),
    (BaseCodeExecutor, ExecutorProxy.of),
    (BaseTool, ToolProxy),
    (BaseToolset, ToolsetProxy),
    (BasePlanner, PlannerProxy),
    (BasePlugin, PluginProxy),
]


def for_google_adk(value: Any) -> Any:
    """Return an object of this package as one that google-adk's classes take; others unchanged."""
    show = next((show for kind, show in _SHOWN if isinstance(value, kind)), None)
    return show(value) if show else value


def _runs_here(ours: object) -> AgentDefinitionError:
    return AgentDefinitionError(
        f"{type(ours).__name__} is of durable_adk, so google-adk's own Runner cannot run it; use "
        "durable_adk's."
    )
