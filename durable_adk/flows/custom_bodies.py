"""Runs sub-agents, built-in bodies and functions for the bodies of custom agents."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from durable_adk.agents import determinism
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.step_function import READ_EVENTS, name_of
from durable_adk.calling.closing import abandoned, closing
from durable_adk.calling.code_scope import CodeScope, raise_refusal
from durable_adk.context.journal import Journal
from durable_adk.context.loop import FunctionCall, InvocationContext, Loop, RunningAgent, SubRun
from durable_adk.errors import AgentError, DurableAdkError, from_detail
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, CallSite, CommitBy
from durable_adk.flows.invocation import Invocation
from durable_adk.json_values import canonical, check_json
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.messages import check_event, check_size
from durable_adk.wire.steps import FunctionStep

RunNode = Callable[[AgentNode, BaseAgent | None, CallSite], AsyncGenerator[Event, None]]
"""Runs an agent, with its callbacks and the agents to which it hands over."""
_END: Any = object()
RunBody = Callable[[AgentNode, AgentScope], AsyncGenerator[Event, None]]
"""Runs the body of a built-in agent."""


class CustomBodies:
    """Runs custom agents' bodies, and the runs and functions they call, by their journals."""

    def __init__(self, invocation: Invocation, run_node: RunNode, run_body: RunBody) -> None:
        self._invocation = invocation
        self._state = invocation.state
        self._run_node = run_node
        self._run_body = run_body

    def run_agent(
        self, agent: BaseAgent, ctx: InvocationContext, scope: AgentScope
    ) -> AsyncGenerator[Event, None]:
        """Run a sub-agent for a custom agent."""
        # An agent that the custom body added after the opening has no recorded node.
        node = self._state.checkpoint.opened.manifest.find(agent.name) or agent.node()
        journal = scope.journal
        name = journal.sub_run_name() if journal else ""
        frame = scope.frame.enter(name)
        site = CallSite(ctx=ctx, frame=frame, branch=scope.branch, above=scope)
        events = self._run_node(node, agent, site)
        if journal is not None:
            events = journal.sub_run(events)
        events = _for_body(scope, events)
        return SubRun(self._sub_run(scope, events, name), scope.abandoned)

    async def _sub_run(
        self, scope: AgentScope, events: AsyncGenerator[Event, None], name: str
    ) -> AsyncGenerator[Event, None]:
        raise_refusal()
        await self._close_abandoned(scope)
        try:
            async with closing(events):
                async for event in events:
                    yield event
        finally:
            scope.frame.leave(name)

    async def _close_abandoned(self, scope: AgentScope) -> None:
        """Close abandoned sub-agents' runs; the closing events respond to their open calls."""
        while scope.abandoned:
            self._state.checkpoint.left_calls = True
            await scope.abandoned.pop().aclose()

    async def run_function(
        self, scope: AgentScope, function: Callable[..., Any] | str, call: FunctionCall
    ) -> Any:
        """Run a function of a custom agent, or `READ_EVENTS`, as a step."""
        journal = scope.journal
        if journal is None:
            return await self._function(scope, function, call)
        if journal.is_past():
            return await journal.past_value()
        await self._invocation.continuing.safe_point(journal)
        value = await journal.value(self._function(scope, function, call))
        self._invocation.continuing.progressed()
        return value

    async def _function(
        self, scope: AgentScope, function: Callable[..., Any] | str, call: FunctionCall
    ) -> Any:
        if scope.agent is None:
            raise AgentError("ctx.step needs the agent's own code, which this worker lacks.")
        check_json([list(call.args), call.kwargs], "the arguments of ctx.step")
        check_size(canonical([list(call.args), call.kwargs]), "The arguments of ctx.step")
        event_id = scope.branch.next_id()
        step = FunctionStep(
            # There is no event for the step to commit.
            **self._invocation.step_fields(scope, event_id, commit_by=CommitBy.LOOP),
            attempt_timeout=call.timeout or self._state.checkpoint.opened.limits.tool_timeout,
            function=function if isinstance(function, str) else name_of(scope.agent, function),
            args=list(call.args),
            kwargs=call.kwargs,
        )
        result = await self._state.runtime.perform(step)
        if result.error:
            raise from_detail(result.error)
        return result.value

    def run_built_in(self, node: AgentNode, scope: AgentScope) -> AsyncGenerator[Event, None]:
        """Run a built-in body, also for a subclass whose own body calls it."""
        if scope.journal is None:
            return self._run_body(node, scope)
        name = scope.journal.sub_run_name()
        events = scope.journal.sub_run(self._called_by_body(node, scope, name), scope.ctx)
        return _for_body(scope, events)

    async def _called_by_body(
        self, node: AgentNode, scope: AgentScope, name: str
    ) -> AsyncGenerator[Event, None]:
        """Run a built-in body for a custom one, in a frame of its own: it may call several."""
        own = replace(scope, frame=scope.frame.enter(name))
        try:
            async with closing(self._run_body(node, own)) as events:
                async for event in events:
                    yield event
        finally:
            scope.frame.leave(name)

    async def own_code(self, agent: BaseAgent, scope: AgentScope) -> AsyncGenerator[Event, None]:
        """Run a custom agent's own body, with a journal."""
        loop = asyncio.get_running_loop()
        continuing = self._invocation.continuing
        scope.journal = continuing.open_journal(scope)
        try:
            async with closing(_checked(agent, scope, continuing.safe_point)) as events:
                async for event in events:
                    yield event
        finally:
            if not abandoned(loop):
                await self._close_abandoned(scope)
                continuing.close_journal(scope)


class BodyLoop(Loop):
    """`InvocationContext.loop` for the body of one run of an agent."""

    scope: AgentScope

    def __init__(self, loop: CustomBodies) -> None:
        self._loop = loop

    async def read_events(self, ctx: InvocationContext) -> list[dict[str, Any]]:
        """See `InvocationContext.events`."""
        nothing = FunctionCall((), {}, None)
        return await self._loop.run_function(self._of(ctx), READ_EVENTS, nothing)

    async def run_function(
        self, ctx: InvocationContext, function: Callable[..., Any], call: FunctionCall
    ) -> Any:
        """See `InvocationContext.step`."""
        scope = self._of(ctx)
        raise_refusal()
        try:
            return await self._loop.run_function(scope, function, call)
        except DurableAdkError as error:
            failed = scope.given(error)
        raise failed

    def run_agent(self, agent: RunningAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """See `BaseAgent.run_async`."""
        return self._loop.run_agent(cast("BaseAgent", agent), ctx, self._of(ctx))

    def run_built_in(self, node: AgentNode, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run a built-in agent's own body."""
        return self._loop.run_built_in(node, self._of(ctx))

    def _of(self, ctx: InvocationContext) -> AgentScope:
        """Return the run's scope, with the body's own copy of the context, if it made one."""
        return self.scope if ctx is self.scope.ctx else replace(self.scope, ctx=ctx)


async def _for_body(
    scope: AgentScope, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run to a custom agent's body, and raise errors as it expects them."""
    try:
        async with closing(events):
            async for event in events:
                yield event
    except DurableAdkError as error:
        failed = scope.given(error)
    else:
        return
    raise failed


async def _checked(
    agent: BaseAgent, scope: AgentScope, safe_point: Callable[[Journal], Awaitable[None]]
) -> AsyncGenerator[Event, None]:
    """Run a custom agent's body; check its events here, where errors can name the agent."""
    journal = scope.journal
    body = determinism.body(agent, sleep=journal.sleep if journal else None)
    code = CodeScope(stepped=True)
    try:
        async with closing(body(scope.ctx)) as events:
            while True:
                with code:
                    event = await anext(events, _END)
                if event is _END:
                    break
                if journal is not None and journal.is_past():
                    journal.past_yield()
                    continue
                check_json(event.actions.state_delta, f"state_delta of {agent.name}'s event")
                check_event(event, f"An event of {agent.name}")
                event.author = event.author or agent.name
                event.id = event.id or scope.branch.next_id()
                yield event
                if journal is not None:
                    journal.went_on()
                    await safe_point(journal)
    except Exception as error:  # noqa: BLE001 - any exception of the body ends the run
        failed = scope.reported(error)
    else:
        return
    finally:
        code.end()
    raise failed
