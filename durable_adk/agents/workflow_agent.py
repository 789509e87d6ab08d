"""The base of the agents that only drive other agents."""

from abc import abstractmethod
from collections.abc import AsyncGenerator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.closing import closing
from durable_adk.context.loop import InvocationContext
from durable_adk.events.event import Event
from durable_adk.wire.manifest import AgentNode, NodeKind


class WorkflowAgent(BaseAgent):
    """An agent without a model: the loop drives its sub-agents as its node says (semantics 8.3)."""

    @abstractmethod
    def _kind(self) -> NodeKind:
        """Which built-in body drives the sub-agents."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Drive the sub-agents; for subclasses that have a body of their own and call this one."""
        node = self.node()
        node.kind = self._kind()
        async with closing(ctx.loop.run_built_in(node, ctx)) as events:
            async for event in events:
                yield event

    def node(self) -> AgentNode:
        """What the manifest records; see `BaseAgent.node`."""
        node = super().node()
        # A subclass with a body of its own is driven by that body, in the loop.
        if type(self)._run_async_impl is WorkflowAgent._run_async_impl:  # noqa: SLF001 - of the subclass
            node.kind = self._kind()
        return self._describe(node)
