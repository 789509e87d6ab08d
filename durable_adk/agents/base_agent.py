"""`BaseAgent`: the base class of all agents."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Self, TypeAlias, cast

from google.genai import types
from pydantic import Field, field_validator

from durable_adk.context.activity import CallbackContext
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.event import Event
from durable_adk.google_objects import all_from_google_adk
from durable_adk.graph.base_node import BaseNode
from durable_adk.json_values import canonical
from durable_adk.tools.base_tool import ToolOrToolset
from durable_adk.wire.manifest import AgentNode

AgentCallback: TypeAlias = Callable[
    [CallbackContext], types.Content | Awaitable[types.Content | None] | None
]
"""Called as ``callback(callback_context=...)``; a Content it returns becomes an event."""


class BaseAgent(BaseNode):
    """An agent: a name, callbacks, sub-agents and a body; also a node of graphs (GR-8).

    Subclasses define the body: `_run_async_impl` runs in the deterministic loop, runs sub-agents
    with ``self.sub.run_async(ctx)`` and yields events. It may read `ctx.session.state`, call
    `ctx.step` and `await asyncio.sleep` (a durable timer). It must not use a clock, random numbers
    or I/O; these belong in steps, tools and callbacks.
    """

    sub_agents: list["BaseAgent"] = Field(default_factory=list["BaseAgent"])
    before_agent_callback: AgentCallback | Sequence[AgentCallback] | None = None
    after_agent_callback: AgentCallback | Sequence[AgentCallback] | None = None
    parent_agent: "BaseAgent | None" = Field(default=None, init=False, repr=False, exclude=True)

    @field_validator("name")
    @classmethod
    def _usable_name(cls, value: str) -> str:
        if not value.isidentifier() or value == "user":
            raise ValueError(
                f"the agent name {value!r} must be a Python identifier other than 'user'"
            )
        return value

    @field_validator("sub_agents", mode="before")
    @classmethod
    def _our_sub_agents(cls, value: Any) -> Any:
        ours = all_from_google_adk(value)
        for one in cast("list[Any]", ours) if isinstance(ours, list) else []:
            if isinstance(one, BaseNode) and not isinstance(one, BaseAgent):
                raise AgentDefinitionError(
                    f"{type(one).__name__} {one.name!r} cannot be a sub-agent: use it as a tool of "
                    "an LlmAgent, tools=[...], or as a node of a Workflow."
                )
        return cast("Any", ours)

    def model_post_init(self, context: Any, /) -> None:
        """Set the parent of the sub-agents (AGT-2).

        Raises:
            AgentDefinitionError: A sub-agent has a parent already, a name occurs twice, or a tool
                is given as a callback or an instruction.
        """
        del context
        for name in type(self).model_fields:
            value: Any = getattr(self, name)
            if name.endswith(("_callback", "instruction")):
                self._check_function(name, value)
        for child in self.sub_agents:
            if child.parent_agent is not None:
                raise AgentDefinitionError(
                    f"Agent {child.name!r} is a sub-agent of {child.parent_agent.name!r} already, "
                    f"so it cannot be one of {self.name!r} too; make a second agent."
                )
            child.parent_agent = self
        names = [agent.name for agent in self.walk()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            # Steps refer to agents by name, so names must be unique within a tree.
            raise AgentDefinitionError(
                f"Agent name {twice[0]!r} occurs twice below {self.name!r}; names are unique."
            )

    def _check_function(self, field: str, value: Any) -> None:
        for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(one, ToolOrToolset):
                raise AgentDefinitionError(
                    f"{field} of agent {self.name!r} is a tool, {type(one).__name__}; pass a "
                    "function."
                )

    def walk(self) -> list["BaseAgent"]:
        """Return this agent and all agents below it, depth first."""
        return [self, *(agent for child in self.sub_agents for agent in child.walk())]

    @property
    def root_agent(self) -> "BaseAgent":
        """The root of this agent's tree."""
        return self if self.parent_agent is None else self.parent_agent.root_agent

    def find_agent(self, name: str) -> "BaseAgent | None":
        """Return this agent, or the agent below it, that has this name (AGT-3)."""
        return next((agent for agent in self.walk() if agent.name == name), None)

    def find_sub_agent(self, name: str) -> "BaseAgent | None":
        """Return the agent below this one that has this name (AGT-3)."""
        return next((agent for agent in self.walk()[1:] if agent.name == name), None)

    def clone(self, update: dict[str, Any] | None = None) -> Self:
        """Return a copy without parent and with cloned sub-agents (AGT-9).

        Raises:
            ValueError: `update` contains `parent_agent`, which only a parent sets, or an unknown
                field.
        """
        update = update or {}
        if "parent_agent" in update:
            raise ValueError(
                "Cannot update `parent_agent` field in clone. Parent agent is set only when the "
                "parent agent is instantiated with the sub-agents."
            )
        if unknown := update.keys() - type(self).model_fields.keys():
            raise ValueError(
                f"Cannot update nonexistent fields in {type(self).__name__}: {unknown}"
            )
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        del fields["parent_agent"]
        fields["sub_agents"] = [child.clone() for child in self.sub_agents]
        copied = type(self)(**fields | update)
        # A default that was copied is still no choice of the user.
        copied.model_fields_set.intersection_update(self.model_fields_set | update.keys())
        return copied

    def with_changes(self, **changes: Any) -> Self:
        """See `BaseNode.with_changes`; a clone that keeps the parent."""
        copied = self.clone(changes)
        copied.parent_agent = self.parent_agent
        return copied

    def run_async(self, parent_context: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run this agent as part of an invocation: callbacks, body, callbacks (AGT-5).

        The caller must let the loop commit each event before requesting the next one. Inside
        `_run_async_impl`, yielding the event does that.
        """
        return parent_context.loop.run_agent(self, parent_context)

    def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Yield the events of the body; subclasses override this."""
        del ctx
        raise AgentDefinitionError(f"{type(self).__name__} does not define _run_async_impl.")

    async def close(self) -> None:
        """Close connections; does nothing by default."""

    def node(self) -> AgentNode:
        """Return the manifest entry of this agent and those below it (D6)."""
        children = [child.node() for child in self.sub_agents]
        node = AgentNode(
            name=self.name,
            kind="custom",
            before_agent=bool(self.before_agent_callback),
            after_agent=bool(self.after_agent_callback),
            children=children,
        )
        return self._describe(node)

    def _describe(self, node: AgentNode) -> AgentNode:
        """Set the fingerprint; subclasses call this after they changed the node."""
        text = canonical([type(self).__qualname__, node.model_dump(exclude={"children"})])
        node.fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
        return node
