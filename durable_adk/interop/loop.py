"""Bodies of google-adk's custom agents, run in the deterministic loop."""

# pyright: reportPrivateUsage=false, reportDeprecated=false
# google-adk deprecates these agents for graph workflows, which do not support LlmAgents with
# sub-agents yet.

import copy
import functools
import itertools
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import Any, Self, cast

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.agents.invocation_context import InvocationContext as AdkInvocationContext
from google.adk.agents.llm_agent import LlmAgent as AdkLlmAgent
from google.adk.agents.loop_agent import LoopAgent as AdkLoopAgent
from google.adk.agents.parallel_agent import ParallelAgent as AdkParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent as AdkSequentialAgent
from google.adk.events.event import Event as AdkEvent
from google.adk.platform.uuid import reset_id_provider, set_id_provider
from pydantic import BaseModel, PrivateAttr

from durable_adk.agents import determinism
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.step_function import reads_session
from durable_adk.calling.closing import closing
from durable_adk.context.activity import ReadonlyContext
from durable_adk.context.loop import InvocationContext
from durable_adk.context.step_scope import StepScope
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.event import Event
from durable_adk.interop.context import adk_invocation, adk_run_config
from durable_adk.interop.values import adk_event, adk_session, our_event

_IDS = uuid.UUID("5d1b7a36-0c3e-4c0e-9a53-6f6f6f0f7b1e")


class LoopInvocation(AdkInvocationContext):
    """A context of google-adk's class for an agent's body, on top of the loop's context."""

    _ours: Any = PrivateAttr(default=None)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "end_invocation":
            self._ours.end_invocation = value

    async def events(self) -> list[AdkEvent]:
        """Return the session's events, read by a step; see `InvocationContext.events`."""
        return [adk_event(event) for event in await self._ours.events()]

    def run(self, agent: AdkBaseAgent) -> AsyncGenerator[AdkEvent, None]:
        """Run a sub-agent of google-adk durably."""
        ours = _loaded_as(agent, self._ours.agent)
        return _as_adk(ours.run_async(self._context()))

    def run_built_in(self, agent: AdkBaseAgent) -> AsyncGenerator[AdkEvent, None]:
        """Run the body that the agent's class inherits from a built-in class."""
        del agent
        above: Any = self._ours.agent
        return _as_adk(above.built_in_body(self._context()))

    def _context(self) -> InvocationContext:
        """Return the loop's context, with the branch that the body may have set in a copy."""
        ours: InvocationContext = self._ours
        return (
            ours if self.branch == ours.branch else ours.model_copy(update={"branch": self.branch})
        )


async def _as_adk(events: AsyncGenerator[Event, None]) -> AsyncGenerator[AdkEvent, None]:
    async with closing(events):
        async for event in events:
            yield adk_event(event)


def loop_invocation(ctx: InvocationContext, adk: AdkBaseAgent) -> LoopInvocation:
    """Return google-adk's context for an agent's body."""
    made = LoopInvocation.model_construct(
        invocation_id=ctx.invocation_id,
        agent=adk,
        session=adk_session(ctx.session),
        branch=ctx.branch,
        user_content=ctx.user_content,
        run_config=adk_run_config(ctx.run_config),
        session_service=ctx.session_service,
        artifact_service=ctx.artifact_service,
        memory_service=ctx.memory_service,
        credential_service=ctx.credential_service,
    )
    made._ours = ctx
    return made


class FromAdk(BaseAgent):
    """An agent converted from google-adk."""

    _adk: Any = PrivateAttr(default=None)
    _fields: dict[str, Any] = PrivateAttr(default_factory=dict[str, Any])

    @property
    def adk(self) -> Any:
        """google-adk's agent."""
        return self._adk

    def clone(self, update: dict[str, Any] | None = None) -> Self:
        """See base class; the copy is google-adk's agent, too."""
        copied = super().clone(update)
        copied._adk, copied._fields = self._adk, self._fields
        return copied

    def converted_from(self, adk: AdkBaseAgent) -> Self:
        """Record google-adk's agent and the current values of its fields."""
        self._adk = adk
        self._fields = {name: _kept(getattr(adk, name)) for name in _compared(adk)}
        return self

    def changed(self, adk: AdkBaseAgent) -> list[str]:
        """Return the fields that google-adk's agent, or a copy, has changed since its loading.

        A custom agent's body may change the agent's own additional fields, but not those of a copy.
        """
        if type(adk) is not type(self._adk):
            return ["class"]
        body_reads = type(adk).model_fields.keys() - _LOADED
        ours = self._fields.keys() - (body_reads if adk is self._adk else set())
        seen: set[tuple[int, int]] = set()
        return sorted(n for n in ours if not _same(getattr(adk, n), self._fields[n], seen))


_LOADED = {
    name
    for kind in (AdkLlmAgent, AdkLoopAgent, AdkSequentialAgent, AdkParallelAgent)
    for name in kind.model_fields
}
"""The fields of google-adk's built-in agents, which are read when an app is loaded."""


def _compared(value: BaseModel) -> list[str]:
    return [name for name in type(value).model_fields if name != "parent_agent"]


def _kept(value: Any) -> Any:
    return copy.copy(cast("Any", value)) if isinstance(value, list | dict) else value


def _same(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    """Return whether two objects are identical, equal, or of one class with the same attributes.

    Args:
        one: The first.
        other: The second.
        seen: The pairs being compared; agents, tools and models may refer to each other.
    """
    if one is other or (id(one), id(other)) in seen:
        return True
    if type(one) is not type(other):
        return False
    seen.add((id(one), id(other)))
    parts, others = _parts(one), _parts(other)
    if parts is None or others is None:
        return bool(one == other)
    return parts.keys() == others.keys() and all(
        _same(part, others[name], seen) for name, part in parts.items()
    )


def _parts(value: Any) -> dict[Any, Any] | None:
    """Return an object's parts by name, key or index; None if it must be compared as a whole."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in _compared(value)}
    if isinstance(value, list | tuple):
        return dict(enumerate(cast("list[Any]", value)))
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value)
    return None if callable(value) else getattr(value, "__dict__", None)


def _loaded_as(adk: AdkBaseAgent, above: BaseAgent) -> BaseAgent:
    """Return the agent that was converted from an agent of google-adk, or from one equal to it.

    Steps find it by name, in workers that have loaded the same app.

    Args:
        adk: The agent that a body runs: one below it, a copy, or one built anew.
        above: The agent with the body.

    Raises:
        AgentDefinitionError: There is none, or the agent has changed since it was loaded.
    """
    for agent in above.root_agent.walk():
        if agent is getattr(adk, "ours", None):
            return agent
        if getattr(agent, "adk", None) is adk:
            break
    else:
        agent = above.root_agent.find_agent(adk.name)
    if not isinstance(agent, FromAdk):
        raise AgentDefinitionError(
            f"{above.name} runs the agent {adk.name!r}, which is not below it; give it to "
            "the agent as one of its sub_agents, or as a field."
        )
    changed = agent.changed(adk)
    if changed:
        raise AgentDefinitionError(
            f"{above.name} runs the agent {adk.name!r} with another {', '.join(changed)} than it "
            "was loaded with; its steps run in workers that do not know it. Let its instruction be "
            "a function that reads the state, let a callback change its requests, or give both as "
            "sub_agents, with names of their own."
        )
    return agent


class WithBody(FromAdk):
    """An agent driven by the body of google-adk's agent."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the body of google-adk's agent, guarded like this package's bodies."""
        journal = getattr(getattr(ctx.loop, "scope", None), "journal", None)
        body: Any = determinism.body(self._adk, sleep=journal.sleep if journal else None)
        async with closing(body(loop_invocation(ctx, self._adk))) as events:
            async for event in events:
                yield our_event(event)

    def built_in_body(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the body of the built-in class, which the overriding body has called."""
        return super()._run_async_impl(ctx)


class Remote(FromAdk):
    """An agent of google-adk that runs remotely: its whole run is one step."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Yield the events of the run."""
        timeout = getattr(self._adk, "_timeout", None)
        for event in await ctx.step(self.ask, ctx.branch, timeout=timeout):
            yield Event.read(event)

    @reads_session
    async def ask(self, branch: str | None, *, context: ReadonlyContext) -> list[dict[str, Any]]:
        """Run google-adk's agent in an activity; return its complete events as JSON."""
        invocation = adk_invocation(context)
        invocation.agent, invocation.branch = self._adk, branch
        with _ids_of(context._scope):
            return await self._events(invocation)

    async def _events(self, invocation: AdkInvocationContext) -> list[dict[str, Any]]:
        async with closing(self._adk._run_async_impl(invocation)) as made:
            events = [our_event(event) async for event in made if not event.partial]
        return [event.model_dump(mode="json", exclude_none=True) for event in events]

    async def close(self) -> None:
        """Close the connections of google-adk's agent."""
        await self._adk.cleanup()


@contextmanager
def _ids_of(step: StepScope) -> Generator[None]:
    """Make google-adk generate the same ids in every attempt of a step.

    So a repeated A2A message has the same id, and a server that recognizes it, such as this
    package's, lets the second attempt follow the task that the first one started.
    """
    numbers, session = itertools.count(), step.session
    names = (session.app_name, session.user_id, session.id, step.invocation_id, step.event_id)
    set_id_provider(lambda: str(uuid.uuid5(_IDS, repr((*names, next(numbers))))))
    try:
        yield
    finally:
        reset_id_provider()


def _durable(method: Callable[..., Any], run: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a method of google-adk's agents that runs durably when its context is the loop's."""

    @functools.wraps(method)
    def dispatched(self: Any, ctx: Any) -> Any:
        return run(ctx, self) if isinstance(ctx, LoopInvocation) else method(self, ctx)

    return dispatched


def install() -> None:
    """Make google-adk's agents run durably when a body in the loop runs them.

    This patches the classes, not the objects, because a body may clone or create agents. The
    context decides how an agent runs, so google-adk's own runners are not affected.
    """
    AdkBaseAgent.run_async = _durable(AdkBaseAgent.run_async, LoopInvocation.run)
    for kind in (AdkLlmAgent, AdkSequentialAgent, AdkLoopAgent, AdkParallelAgent):
        kind._run_async_impl = _durable(kind._run_async_impl, LoopInvocation.run_built_in)


install()
