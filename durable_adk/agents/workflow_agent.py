"""Base class of agents that only run other agents."""

from abc import abstractmethod
from collections.abc import AsyncGenerator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.calling.closing import closing
from durable_adk.context.loop import InvocationContext
from durable_adk.events.event import Event
from durable_adk.wire.manifest import AgentNode, NodeKind


class WorkflowAgent(BaseAgent):
    """An agent without a model; the loop runs its sub-agents per its node."""

    @abstractmethod
    def _kind(self) -> NodeKind:
        """Return the kind of the built-in body that runs the sub-agents."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the sub-agents; called by subclasses that override the body."""
        node = self.node()
        node.kind = self._kind()
        async with closing(ctx.loop.run_built_in(node, ctx)) as events:
            async for event in events:
                yield event

    def node(self) -> AgentNode:
        """Return the manifest entry; see `BaseAgent.node`."""
        node = super().node()
        # The loop runs the body of a subclass that overrides it.
        if type(self)._run_async_impl is WorkflowAgent._run_async_impl:  # noqa: SLF001 - of the subclass
            node.kind = self._kind()
        return self._describe(node)
