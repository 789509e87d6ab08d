"""The bodies of google-adk's custom agents, which run in the loop."""

# pyright: reportPrivateUsage=false, reportDeprecated=false
# google-adk wants graph workflows instead, which cannot have LlmAgents with sub-agents yet.

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
from durable_adk.context.activity import ReadonlyContext, StepScope
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.event import Event
from durable_adk.interop.context import adk_invocation, adk_run_config
from durable_adk.interop.values import adk_event, adk_session, our_event

_IDS = uuid.UUID("5d1b7a36-0c3e-4c0e-9a53-6f6f6f0f7b1e")


class LoopInvocation(AdkInvocationContext):
    """A body's context of google-adk's class over that of the loop."""

    _ours: Any = PrivateAttr(default=None)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "end_invocation":
            self._ours.end_invocation = value

    async def events(self) -> list[AdkEvent]:
        """Return the session's events, which a step reads; see `InvocationContext.events`."""
        return [adk_event(event) for event in await self._ours.events()]

    def run(self, agent: AdkBaseAgent) -> AsyncGenerator[AdkEvent, None]:
        """Run a sub-agent of google-adk durably."""
        ours = _loaded_as(agent, self._ours.agent)
        return _as_adk(ours.run_async(self._context()))

    def run_built_in(self, agent: AdkBaseAgent) -> AsyncGenerator[AdkEvent, None]:
        """Run the body of the class that the agent's own is derived from."""
        del agent
        above: Any = self._ours.agent
        return _as_adk(above.built_in_body(self._context()))

    def _context(self) -> InvocationContext:
        """The loop's context; with the branch of a copy that the body has made."""
        ours: InvocationContext = self._ours
        return (
            ours if self.branch == ours.branch else ours.model_copy(update={"branch": self.branch})
        )


async def _as_adk(events: AsyncGenerator[Event, None]) -> AsyncGenerator[AdkEvent, None]:
    async with closing(events):
        async for event in events:
            yield adk_event(event)


def loop_invocation(ctx: InvocationContext, adk: AdkBaseAgent) -> LoopInvocation:
    """Return google-adk's context for the body of an agent."""
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
    """An agent that was made of one of google-adk."""

    _adk: Any = PrivateAttr(default=None)
    _fields: dict[str, Any] = PrivateAttr(default_factory=dict[str, Any])

    @property
    def adk(self) -> Any:
        """google-adk's agent."""
        return self._adk

    def made_of(self, adk: AdkBaseAgent) -> Self:
        """Keep google-adk's agent, and what its fields are now."""
        self._adk = adk
        self._fields = {name: _kept(getattr(adk, name)) for name in _compared(adk)}
        return self

    def changed(self, adk: AdkBaseAgent) -> list[str]:
        """The fields of google-adk's agent, or of a copy of it, that are not as they were loaded.

        A custom agent's own fields are its body's: it may change them, but not in a copy.
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
"""The fields of google-adk's own agents, which are read when an app is loaded."""


def _compared(value: BaseModel) -> list[str]:
    return [name for name in type(value).model_fields if name != "parent_agent"]


def _kept(value: Any) -> Any:
    return copy.copy(cast("Any", value)) if isinstance(value, list | dict) else value


def _same(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    """Whether two objects are one, equal, or of one class with the same attributes.

    Args:
        one: The first.
        other: The second.
        seen: The pairs that are being compared; agents, tools and models may refer to each other.
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
    """What an object consists of, by name, key or index; None: it has to be compared itself."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in _compared(value)}
    if isinstance(value, list | tuple):
        return dict(enumerate(cast("list[Any]", value)))
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value)
    return None if callable(value) else getattr(value, "__dict__", None)


def _loaded_as(adk: AdkBaseAgent, above: BaseAgent) -> BaseAgent:
    """Return the agent that was made of an agent of google-adk's, or of one like it.

    Its steps find it by its name, in workers that have loaded the same app.

    Args:
        adk: What a body runs: an agent that is below it, a copy, or one that it has built anew.
        above: The agent with the body.

    Raises:
        AgentDefinitionError: There is none, or it is not as it was loaded.
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
    """An agent that is driven by the body of google-adk's."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the body of google-adk's agent, guarded as one of ours."""
        journal = getattr(getattr(ctx.loop, "scope", None), "journal", None)
        body: Any = determinism.body(self._adk, sleep=journal.sleep if journal else None)
        async with closing(body(loop_invocation(ctx, self._adk))) as events:
            async for event in events:
                yield our_event(event)

    def built_in_body(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the body of the agent's kind, which its own has called."""
        return super()._run_async_impl(ctx)


class Remote(FromAdk):
    """An agent of google-adk that another machine runs: its whole run is a step."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Yield the events of the run."""
        timeout = getattr(self._adk, "_timeout", None)
        for event in await ctx.step(self.ask, ctx.branch, timeout=timeout):
            yield Event.read(event)

    @reads_session
    async def ask(self, branch: str | None, *, context: ReadonlyContext) -> list[dict[str, Any]]:
        """Run google-adk's agent in the activity; return its whole events as JSON."""
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
    """Have google-adk make the same ids in every attempt at a step.

    Then a message of A2A that is sent again has its id again. A server that knows it, as ours
    does, lets the second attempt follow what the first one has started.
    """
    numbers, session = itertools.count(), step.session
    names = (session.app_name, session.user_id, session.id, step.invocation_id, step.event_id)
    set_id_provider(lambda: str(uuid.uuid5(_IDS, repr((*names, next(numbers))))))
    try:
        yield
    finally:
        reset_id_provider()


def _durable(method: Callable[..., Any], run: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A method of google-adk's agents that runs durably when its context is one of the loop."""

    @functools.wraps(method)
    def dispatched(self: Any, ctx: Any) -> Any:
        return run(ctx, self) if isinstance(ctx, LoopInvocation) else method(self, ctx)

    return dispatched


def install() -> None:
    """Let google-adk's agents run durably where a body in the loop runs them.

    The classes are changed and not the objects, so that agents which a body clones or makes do too.
    Which way an agent goes depends on the context it is run with, so google-adk's own runners run
    the same objects as before.
    """
    AdkBaseAgent.run_async = _durable(AdkBaseAgent.run_async, LoopInvocation.run)
    for kind in (AdkLlmAgent, AdkSequentialAgent, AdkLoopAgent, AdkParallelAgent):
        kind._run_async_impl = _durable(kind._run_async_impl, LoopInvocation.run_built_in)


install()
