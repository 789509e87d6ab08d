"""Runs agents: callbacks, body, callbacks (semantics AGT-5..8)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from durable_adk.agents import determinism
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.step_function import READ_EVENTS, name_of
from durable_adk.closing import abandoned, closing
from durable_adk.context.journal import Journal
from durable_adk.context.loop import (
    FunctionCall,
    InvocationContext,
    NoService,
    RunningAgent,
    SubRun,
)
from durable_adk.errors import AgentError, DurableAdkError, from_detail, raised, text_of
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, Branch, CommitBy, commit_decision
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.llm_flow import run_llm
from durable_adk.flows.plugin_hooks import agent_failed
from durable_adk.flows.workflow_agents import run_loop, run_parallel, run_sequential
from durable_adk.json_values import canonical, check_json
from durable_adk.wire.agent_stack import HandedOver, RunPosition, StackFrame
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import CallbackStep, FunctionStep, Hook, StepResult


@dataclass(frozen=True, kw_only=True)
class _CallSite:
    """Where an agent is run from."""

    ctx: InvocationContext
    """The context of the agent above, or one for the whole invocation."""
    frame: StackFrame
    branch: Branch
    above: AgentScope | None = None
    """The agent above; None for the invocation's first agent."""

    @property
    def run(self) -> int:
        """Number of the run of the agent above."""
        return (self.above.position.run or 0) if self.above else 0


class AgentLoop:
    """Runs the agents of an invocation by their recorded nodes (design D6)."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._state = invocation.state

    def root(self) -> AsyncGenerator[Event, None]:
        """Run the agent that the invocation starts with."""
        state, checkpoint = self._state, self._state.checkpoint
        manifest = checkpoint.opened.manifest
        node = manifest.find(checkpoint.opened.agent) or manifest
        ctx = InvocationContext(
            invocation_id=state.invocation_id,
            agent=None,
            agent_name=node.name,
            session=state.session,
            user_content=state.user_content,
            run_config=checkpoint.request.run_config,
            session_service=NoService("session_service"),
            artifact_service=NoService("artifact_service"),
            memory_service=NoService("memory_service"),
            credential_service=NoService("credential_service"),
            loop=BodyLoop(self),
        )
        site = _CallSite(ctx=ctx, frame=checkpoint.stack, branch=state.main_branch)
        return self._run_node(node, None, site)

    # ----- what custom agents' bodies call

    def run_agent(
        self, agent: BaseAgent, ctx: InvocationContext, scope: AgentScope
    ) -> AsyncGenerator[Event, None]:
        """Run a sub-agent for a custom agent."""
        # An agent that the custom body has added since the opening has no recorded node.
        node = self._state.checkpoint.opened.manifest.find(agent.name) or agent.node()
        journal = scope.journal
        name = journal.sub_run_name() if journal else ""
        frame = scope.frame.enter(name)
        site = _CallSite(ctx=ctx, frame=frame, branch=scope.branch, above=scope)
        events = self._run_node(node, agent, site)
        if journal is not None:
            events = journal.sub_run(events)
        events = _for_body(scope, events)
        return SubRun(self._sub_run(scope, events, name), scope.abandoned)

    async def _sub_run(
        self, scope: AgentScope, events: AsyncGenerator[Event, None], name: str
    ) -> AsyncGenerator[Event, None]:
        await self._close_abandoned(scope)
        try:
            async with closing(events):
                async for event in events:
                    yield event
        finally:
            scope.frame.leave(name)

    async def _close_abandoned(self, scope: AgentScope) -> None:
        """Close abandoned sub-agents' runs; their open calls get responses when all has ended."""
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
            # There is no event that the step could commit.
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
            return self._built_in(node, scope)
        name = scope.journal.sub_run_name()
        events = scope.journal.sub_run(self._called_by_body(node, scope, name), scope)
        return _for_body(scope, events)

    async def _called_by_body(
        self, node: AgentNode, scope: AgentScope, name: str
    ) -> AsyncGenerator[Event, None]:
        """Run a built-in body for a custom one, in a frame of its own: it may call several."""
        own = replace(scope, frame=scope.frame.enter(name))
        try:
            async with closing(self._built_in(node, own)) as events:
                async for event in events:
                    yield event
        finally:
            scope.transfer = own.transfer
            scope.frame.leave(name)

    def _built_in(self, node: AgentNode, scope: AgentScope) -> AsyncGenerator[Event, None]:
        match node.kind:
            case "sequential":
                return run_sequential(node, scope, self._run_child)
            case "loop":
                return run_loop(node, scope, self._run_child)
            case "parallel":
                pending, ends = self._invocation.pending, self._state.rules >= 1
                return run_parallel(node, scope, self._run_child, pending, escalation_ends=ends)
            case _:
                return run_llm(self._invocation, node, scope)

    # ----- one run of agents

    def _run_child(self, node: AgentNode, above: AgentScope) -> AsyncGenerator[Event, None]:
        frame = above.frame.enter()
        site = _CallSite(ctx=above.ctx, frame=frame, branch=above.branch, above=above)
        return self._run_node(node, None, site)

    async def _run_node(
        self, node: AgentNode, agent: BaseAgent | None, site: _CallSite
    ) -> AsyncGenerator[Event, None]:
        """Run an agent, the agents that it hands over to, then the after callbacks, last one first.

        A loop and no recursion: agents may hand over to each other without end (TRAP-29).
        """
        frame, position = site.frame, site.frame.resumed(RunPosition)
        finishing = [self._handed_over(site, node, one) for one in _unfinished(position)]
        if position is not None and position.agent != node.name:  # it has handed over since
            node, agent = self._saved_node(position, node), None
        while True:
            scope = self._scope(node, agent, site, position, finishing)
            run = scope.position.run or 0
            try:
                begun = position is not None
                async with closing(self._run_one(scope, begun=begun)) as events:
                    async for event in events:
                        event.branch = event.branch or scope.ctx.branch
                        yield event
            except DurableAdkError as error:
                self._state.agent_runs.end(run, error.error_type)
                await agent_failed(self._state, scope, error)
                raise
            self._state.agent_runs.end(run)
            if self._has(Hook.AFTER_AGENT, node):
                finishing.append(scope)
            if scope.transfer is None:
                break
            node, agent, position = scope.transfer, None, None
            frame.clear()
        async with closing(self._finish(finishing)) as events:
            async for event in events:
                yield event

    async def _finish(self, scopes: list[AgentScope]) -> AsyncGenerator[Event, None]:
        """Run the after callbacks of agents, last one first."""
        for scope in reversed(scopes):
            if _is_unfinished(scope):
                try:
                    result = await self._callback(Hook.AFTER_AGENT, scope)
                except DurableAdkError as error:
                    await agent_failed(self._state, scope, error)
                    raise
                if result.event:
                    yield result.event

    def _scope(
        self,
        node: AgentNode,
        agent: BaseAgent | None,
        site: _CallSite,
        position: RunPosition | None,
        finishing: list[AgentScope],
    ) -> AgentScope:
        """The scope of a run that begins or is resumed.

        Its context is a copy, so an agent that ends does not end the one above (CTX-4).
        """
        state = self._state
        if agent is None and node.kind == "custom":
            agent = state.runtime.agent(state.key.app_name, node.name)
        hooks_follow = bool(finishing) or self._has(Hook.AFTER_AGENT, node)
        commit_by, closes = commit_decision(
            site.above, node, hooks_follow=hooks_follow or self._more_follows()
        )
        if position is None:
            known = state.checkpoint.opened.manifest.find(node.name) == node
            position = RunPosition(
                agent=node.name,
                node=None if known else node,
                start=state.checkpoint.revision,
                closes=closes,
                unfinished=[
                    HandedOver(agent=one.ctx.agent_name, start=one.position.start)
                    for one in finishing
                    if _is_unfinished(one)
                ],
            )
        position.closes = position.closes and closes
        if position.run is None:
            position.run = state.agent_runs.begin(node.name, site.run)
        site.frame.hold(position)
        return self._new_scope(node, agent, site, position, commit_by)

    def _more_follows(self) -> bool:
        """Whether something is to be done after the agents and before the invocation ends."""
        state, opened = self._state, self._state.checkpoint.opened
        return state.hooked("after_run_callback") or (opened.compacts and state.rules >= 1)

    def _new_scope(
        self,
        node: AgentNode,
        agent: BaseAgent | None,
        site: _CallSite,
        position: RunPosition,
        commit_by: CommitBy,
    ) -> AgentScope:
        loop = BodyLoop(self)
        ctx = replace(site.ctx, agent=agent, agent_name=node.name, end_invocation=False, loop=loop)
        loop.scope = AgentScope(
            ctx=ctx,
            node=node,
            agent=agent,
            branch=site.branch,
            frame=site.frame.enter("body"),
            position=position,
            commit_by=commit_by,
        )
        return loop.scope

    def _handed_over(self, site: _CallSite, begun: AgentNode, one: HandedOver) -> AgentScope:
        """The scope for the after callbacks of an agent that handed over in an earlier run."""
        node = self._state.checkpoint.opened.manifest.find(one.agent) or begun
        commit_by, _ = commit_decision(site.above, node, hooks_follow=True)
        loop = BodyLoop(self)
        loop.scope = AgentScope(
            ctx=replace(site.ctx, agent=None, agent_name=one.agent, loop=loop),
            node=node,
            agent=None,
            branch=site.branch,
            frame=StackFrame(),
            position=RunPosition(agent=one.agent, start=one.start, closes=False, run=site.run),
            commit_by=commit_by,
        )
        return loop.scope

    def _saved_node(self, position: RunPosition, begun: AgentNode) -> AgentNode:
        known = self._state.checkpoint.opened.manifest.find(position.agent)
        return position.node or known or begun

    async def _run_one(self, scope: AgentScope, *, begun: bool) -> AsyncGenerator[Event, None]:
        """Run the before callbacks, unless the body began in an earlier run, and the body."""
        if self._has(Hook.BEFORE_AGENT, scope.node) and not begun:
            result = await self._callback(Hook.BEFORE_AGENT, scope)
            if result.event:
                yield result.event
                if result.event.content:
                    scope.answered = True  # stands for the body and the after callbacks (AGT-6)
                    return
        if not scope.end_invocation:
            async with closing(self._body(scope)) as events:
                async for event in events:
                    yield event

    def _body(self, scope: AgentScope) -> AsyncGenerator[Event, None]:
        if scope.node.kind == "custom" and scope.agent is not None:
            return self._own_code(scope.agent, scope)
        return self.run_built_in(scope.node, scope)

    async def _own_code(self, agent: BaseAgent, scope: AgentScope) -> AsyncGenerator[Event, None]:
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

    def _has(self, hook: Hook, node: AgentNode) -> bool:
        """Whether the agent has callbacks of this kind, or the app has plugins with such a hook."""
        if hook is Hook.BEFORE_AGENT:
            return node.before_agent or self._state.hooked("before_agent_callback")
        return node.after_agent or self._state.hooked("after_agent_callback")

    async def _callback(self, hook: Hook, scope: AgentScope) -> StepResult:
        step = CallbackStep(
            **self._invocation.step_fields(scope, scope.branch.next_id()),
            attempt_timeout=self._state.checkpoint.opened.limits.callback_timeout,
            hook=hook,
        )
        result = await self._state.runtime.perform(step)
        self._invocation.take(result)
        scope.end_invocation = scope.end_invocation or result.end_invocation
        return result


class BodyLoop:
    """What `InvocationContext.loop` is: the loop, for the body of one run of an agent."""

    scope: AgentScope

    def __init__(self, loop: AgentLoop) -> None:
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
        try:
            return await self._loop.run_function(scope, function, call)
        except DurableAdkError as error:
            failed = scope.given(error)
        raise failed

    def run_agent(self, agent: RunningAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """See `BaseAgent.run_async`."""
        return self._loop.run_agent(cast("BaseAgent", agent), ctx, self._of(ctx))

    def run_built_in(self, node: AgentNode, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the body that a built-in agent of that kind has."""
        return self._loop.run_built_in(node, self._of(ctx))

    def _of(self, ctx: InvocationContext) -> AgentScope:
        """The run's scope; with the body's own copy of the context, if it has made one."""
        return self.scope if ctx is self.scope.ctx else replace(self.scope, ctx=ctx)


def _unfinished(position: RunPosition | None) -> list[HandedOver]:
    return position.unfinished if position else []


def _is_unfinished(scope: AgentScope) -> bool:
    """Whether the agent's after callbacks are to run."""
    return not (scope.end_invocation or scope.answered)


async def _for_body(
    scope: AgentScope, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run to a custom agent's body, and raise what that is to catch."""
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
    """Run a custom agent's body; check what it yields here, where errors can name the agent."""
    journal = scope.journal
    body = determinism.body(agent, sleep=journal.sleep if journal else None)
    try:
        async with closing(body(scope.ctx)) as events:
            async for event in events:
                if journal is not None and journal.is_past():
                    journal.past_yield()
                    continue
                check_json(event.actions.state_delta, f"state_delta of {agent.name}'s event")
                check_size(event.to_json(), f"An event of {agent.name}")
                event.author = event.author or agent.name
                event.id = event.id or scope.branch.next_id()
                yield event
                if journal is not None:
                    journal.went_on()
                    await safe_point(journal)
    except Exception as error:  # noqa: BLE001 - any exception of the body ends the run
        failed = scope.reported(error)
    except (SystemExit, KeyboardInterrupt) as error:  # these would end the worker
        raise raised(AgentError, type(error).__name__, text_of(error)) from error
    else:
        return
    raise failed
