"""A step while one of its attempts is performed."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from durable_adk.activities.commit.plan import CommitPlan
from durable_adk.activities.dependencies import Dependencies
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.context.step_scope import StepScope
from durable_adk.errors import AgentDefinitionError
from durable_adk.graph.base_node import BaseNode
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.wire.effect import Attempt
from durable_adk.wire.steps import Step

S_co = TypeVar("S_co", bound=Step, covariant=True)


@dataclass(kw_only=True)
class ActiveStep(Generic[S_co]):
    """A step with everything that its code works with."""

    deps: Dependencies
    step: S_co
    attempt: Attempt = field(default_factory=Attempt)
    repeatable: bool = False
    """Whether the work may be done again: it has no effect, or its outcome is recorded elsewhere.
    Set by the work."""
    _loaded: tuple[BaseNode, StepScope] | None = field(default=None, init=False)

    @cached_property
    def plan(self) -> CommitPlan:
        """Who commits the step's event, and what is noted before; see `CommitPlan.of`."""
        return CommitPlan.of(self.deps, self.step)

    async def load(self) -> None:
        """Read the session, once; `agent` and `scope` are available from then on.

        Raises:
            DurableAdkError: See `Dependencies.scope`.
        """
        if self._loaded is None:
            self._loaded = await self.deps.scope(self.step)

    @property
    def agent(self) -> BaseAgent:
        """The step's agent.

        Raises:
            AgentDefinitionError: A deploy has made a node of it that is no agent.
        """
        if not isinstance(self._read[0], BaseAgent):
            raise AgentDefinitionError(f"Node {self._read[0].name!r} is no agent any more.")
        return self._read[0]

    @property
    def llm_agent(self) -> LlmAgent:
        """The step's agent, which calls a model.

        Raises:
            AgentDefinitionError: A deploy has made it another kind of agent.
        """
        if not isinstance(self.agent, LlmAgent):
            raise AgentDefinitionError(f"Agent {self.agent.name!r} is no LlmAgent any more.")
        return self.agent

    @property
    def scope(self) -> StepScope:
        """The session as the step sees it."""
        return self._read[1]

    @property
    def plugins(self) -> PluginManager:
        """The plugins that see the step."""
        return self.deps.plugins(self.step)

    @property
    def _read(self) -> tuple[BaseNode, StepScope]:
        if self._loaded is None:
            raise RuntimeError("ActiveStep.load was not awaited.")
        return self._loaded
