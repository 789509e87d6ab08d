"""One run of one agent: callbacks, body, callbacks (semantics AGT-5..8)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from durable_adk.agents import determinism
from durable_adk.agents.step_function import name_of
from durable_adk.closing import abandoned, closing
from durable_adk.context.journal import Journal
from durable_adk.context.loop import FunctionCall, InvocationContext, SubRun
from durable_adk.errors import AgentError, DurableAdkError, from_detail, raised
from durable_adk.events.event import Event
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.llm_flow import run_llm
from durable_adk.flows.parallel import run_parallel
from durable_adk.flows.plugin_hooks import agent_failed
from durable_adk.flows.workflow_agents import run_loop, run_sequential
from durable_adk.json_values import canonical, check_json
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import CallbackStep, FunctionStep, Hook, StepResult

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent


class AgentLoop:
    """Runs agents by their recorded nodes; what `InvocationContext.loop` is (design D6)."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    def root(self) -> AsyncGenerator[Event, None]:
        """Run the agent the invocation starts with."""
        invocation = self._invocation
        manifest = invocation.opened.manifest
        node = manifest.find(invocation.opened.agent) or manifest
        ctx = InvocationContext(
            invocation_id=invocation.invocation_id,
            agent=None,
            agent_name=node.name,
            session=invocation.session,
            user_content=invocation.user_content,
            run_config=invocation.request.run_config,
            # Else the hook would come after the end.
            closes=not invocation.hooked("after_run_callback"),
            lane=invocation.lane,
            frame=invocation.frame,
            loop=self,
        )
        return self._run_node(node, None, ctx)

    def run_agent(self, agent: "BaseAgent", ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run a sub-agent for a custom agent."""
        # An agent that the custom body brought along after the opening has no recorded node.
        node = self._invocation.opened.manifest.find(agent.name) or agent.node()
        name = ctx.trace.sub_run_name() if ctx.trace else ""
        own = replace(ctx, direct=False, closes=False, frame=ctx.frame.enter(name))
        events = self._run_node(node, agent, own)
        if ctx.trace is not None:
            events = ctx.trace.sub_run(events)
        return SubRun(self._after_left(ctx, events, name), ctx.left)

    async def _after_left(
        self, ctx: InvocationContext, events: AsyncGenerator[Event, None], name: str
    ) -> AsyncGenerator[Event, None]:
        await self._close_left(ctx)
        try:
            async with closing(events):
                async for event in events:
                    yield event
        finally:
            ctx.frame.leave(name)

    async def _close_left(self, ctx: InvocationContext) -> None:
        """End what a custom agent's body has let go of; its open calls are sealed at the end."""
        while ctx.left:
            self._invocation.left_calls = True
            await ctx.left.pop().aclose()

    async def run_function(
        self, ctx: InvocationContext, function: Callable[..., Any], call: FunctionCall
    ) -> Any:
        """Run a function of a custom agent as a step; see `InvocationContext.step`."""
        if ctx.trace is None:
            return await self._function(ctx, function, call)
        if ctx.trace.is_past():
            return await ctx.trace.past_value()
        await self._invocation.rolling.safe_point(ctx.trace)
        value = await ctx.trace.value(self._function(ctx, function, call))
        self._invocation.rolling.move()
        return value

    async def _function(
        self, ctx: InvocationContext, function: Callable[..., Any], call: FunctionCall
    ) -> Any:
        invocation = self._invocation
        if ctx.agent is None:
            raise AgentError("ctx.step needs the agent's own code, which this worker lacks.")
        check_json([list(call.args), call.kwargs], "the arguments of ctx.step")
        check_size(canonical([list(call.args), call.kwargs]), "The arguments of ctx.step")
        place = invocation.place(ctx, ctx.lane.next_id())
        place["grant"] = None  # it has no event
        step = FunctionStep(
            **place,
            attempt_timeout=call.timeout or invocation.opened.limits.tool_timeout,
            function=name_of(ctx.agent, function),
            args=list(call.args),
            kwargs=call.kwargs,
        )
        result = await invocation.runtime.perform(step)
        if result.error:
            raise from_detail(result.error)
        return result.value

    def run_built_in(self, node: AgentNode, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run a built-in body, also for a subclass whose own body calls it."""
        if ctx.trace is None:
            return self._built_in(node, ctx)
        name = ctx.trace.sub_run_name()
        return ctx.trace.sub_run(self._called_by_body(node, ctx, name), ctx)

    async def _called_by_body(
        self, node: AgentNode, ctx: InvocationContext, name: str
    ) -> AsyncGenerator[Event, None]:
        """A built-in body that a custom one calls, maybe several times: each has its frame."""
        outer = ctx.frame
        ctx.frame = outer.enter(name)
        try:
            async with closing(self._built_in(node, ctx)) as events:
                async for event in events:
                    yield event
        finally:
            ctx.frame = outer
            outer.leave(name)

    def _built_in(self, node: AgentNode, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        match node.kind:
            case "sequential":
                return run_sequential(node, ctx, self._run_child)
            case "loop":
                return run_loop(node, ctx, self._run_child)
            case "parallel":
                return run_parallel(node, ctx, self._run_child, self._invocation.pauses)
            case _:
                return run_llm(self._invocation, node, ctx)

    def _run_child(self, node: AgentNode, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        return self._run_node(node, None, replace(ctx, closes=False, frame=ctx.frame.enter()))

    async def _run_node(
        self, node: AgentNode, agent: "BaseAgent | None", parent: InvocationContext
    ) -> AsyncGenerator[Event, None]:
        """Run an agent, then whom it hands over to, then the after callbacks, last agent first.

        A loop and no recursion: agents may hand over to each other without end (TRAP-29).
        """
        frame, told = parent.frame, parent.frame.take()
        unfinished = [self._told_of(parent, one) for one in told.get("unfinished", [])]
        if told and told["agent"] != node.name:  # it has handed over since
            node, agent = self._node_told(told, node), None
        while True:
            ctx = self._context(node, agent, parent)
            if told:
                ctx.run_start, ctx.body = told["start"], told["body"]
                ctx.closes = ctx.closes and told["closes"]
            ctx.run = self._run_number(ctx, parent, told)
            frame.tell = partial(self._tell, node, ctx, tuple(unfinished))
            if unfinished or self._has(Hook.AFTER_AGENT, node):
                ctx.closes, parent = False, replace(parent, closes=False)
            if self._has(Hook.AFTER_AGENT, node):
                unfinished.append(ctx)
            try:
                async with closing(self._run_one(node, ctx, begun=bool(told))) as events:
                    async for event in events:
                        event.branch = event.branch or ctx.branch
                        yield event
            except DurableAdkError as error:
                self._invocation.runs.end(ctx.run, error.error_type)
                await agent_failed(self._invocation, ctx, error)
                raise
            self._invocation.runs.end(ctx.run)
            if ctx.transfer is None:
                break
            node, agent, told = ctx.transfer, None, {}
            frame.renew()
        async with closing(self._finish(unfinished)) as events:
            async for event in events:
                yield event

    async def _finish(self, unfinished: list[InvocationContext]) -> AsyncGenerator[Event, None]:
        """The after callbacks, last agent first."""
        for own in reversed(unfinished):
            if not (own.end_invocation or own.answered):
                try:
                    result = await self._callback(Hook.AFTER_AGENT, own)
                except DurableAdkError as error:
                    await agent_failed(self._invocation, own, error)
                    raise
                if result.event:
                    yield result.event

    def _run_number(
        self, ctx: InvocationContext, parent: InvocationContext, told: dict[str, Any]
    ) -> int:
        """The number of a run that begins, or that has begun in an earlier run of the workflow."""
        number = told.get("run")
        return self._invocation.runs.begin(ctx.agent_name, parent.run) if number is None else number

    def _tell(
        self, node: AgentNode, ctx: InvocationContext, unfinished: Sequence[InvocationContext]
    ) -> dict[str, Any]:
        """Where a run of agents that hand over to each other is; see `Frame`."""
        known = self._invocation.opened.manifest.find(node.name) == node
        return {
            "agent": node.name,
            # Only one that a deploy has added since the opening is not in the manifest.
            "node": None if known else node.model_dump(mode="json"),
            "start": ctx.run_start,
            "closes": ctx.closes,
            "body": ctx.trace and ctx.trace.name,
            "run": ctx.run,
            "unfinished": [
                {"agent": one.agent_name, "start": one.run_start}
                for one in unfinished
                if not (one.end_invocation or one.answered)
            ],
        }

    def _node_told(self, told: dict[str, Any], begun: AgentNode) -> AgentNode:
        if told["node"] is not None:
            return AgentNode.read(told["node"])
        return self._invocation.opened.manifest.find(told["agent"]) or begun

    def _told_of(self, parent: InvocationContext, told: dict[str, Any]) -> InvocationContext:
        """The context in which the after callbacks of an agent are to run that handed over."""
        return replace(parent, agent=None, agent_name=told["agent"], run_start=told["start"])

    def _context(
        self, node: AgentNode, agent: "BaseAgent | None", parent: InvocationContext
    ) -> InvocationContext:
        """The context of one agent run: a copy, so a child that ends leaves the parent (CTX-4)."""
        if agent is None and node.kind == "custom":
            agent = self._invocation.runtime.agent(self._invocation.key.app_name, node.name)
        return replace(
            parent,
            agent=agent,
            agent_name=node.name,
            end_invocation=False,
            transfer=None,
            answered=False,
            left=[],
            frame=parent.frame.enter("body"),
            trace=None,
            run_start=self._invocation.revision,
            # A body of its own may change or drop what the agents below it yield.
            direct=parent.direct and node.kind != "custom",
            closes=parent.closes and node.kind == "llm" and not self._has(Hook.AFTER_AGENT, node),
        )

    async def _run_one(
        self, node: AgentNode, ctx: InvocationContext, *, begun: bool
    ) -> AsyncGenerator[Event, None]:
        """The before callbacks, unless the body has begun in an earlier run, and the body."""
        if self._has(Hook.BEFORE_AGENT, node) and not begun:
            result = await self._callback(Hook.BEFORE_AGENT, ctx)
            if result.event:
                yield result.event
                if result.event.content:
                    ctx.answered = True  # stands for the body and the after callbacks (AGT-6)
                    return
        if not ctx.end_invocation:
            async with closing(self._body(node, ctx)) as events:
                async for event in events:
                    yield event

    async def _own_code(
        self, agent: "BaseAgent", ctx: InvocationContext
    ) -> AsyncGenerator[Event, None]:
        loop = asyncio.get_running_loop()
        rolling = self._invocation.rolling
        ctx.trace = rolling.trace(ctx)
        try:
            async with closing(_checked(agent, ctx, rolling.safe_point)) as events:
                async for event in events:
                    yield event
        finally:
            if not abandoned(loop):
                await self._close_left(ctx)
                rolling.forget(ctx.trace)

    def _body(self, node: AgentNode, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        if node.kind == "custom" and ctx.agent is not None:
            return self._own_code(ctx.agent, ctx)
        return self.run_built_in(node, ctx)

    def _has(self, hook: Hook, node: AgentNode) -> bool:
        """Whether the agent has callbacks of this kind, or the app has plugins with such a hook."""
        if hook is Hook.BEFORE_AGENT:
            return node.before_agent or self._invocation.hooked("before_agent_callback")
        return node.after_agent or self._invocation.hooked("after_agent_callback")

    async def _callback(self, hook: Hook, ctx: InvocationContext) -> StepResult:
        invocation = self._invocation
        result = await invocation.runtime.perform(
            CallbackStep(
                **invocation.place(ctx, ctx.lane.next_id()),
                attempt_timeout=invocation.opened.limits.callback_timeout,
                hook=hook,
            )
        )
        invocation.take(result)
        ctx.end_invocation = ctx.end_invocation or result.end_invocation
        return result


async def _checked(
    agent: "BaseAgent", ctx: InvocationContext, safe_point: Callable[[Journal], Awaitable[None]]
) -> AsyncGenerator[Event, None]:
    """Run a custom agent's body; what it yields is checked here, where it can be named."""
    trace = ctx.trace
    body = determinism.body(agent, sleep=trace.sleep if trace else None)
    try:
        async with closing(body(ctx)) as events:
            async for event in events:
                if trace is not None and trace.is_past():
                    trace.past_yield()
                    continue
                check_json(event.actions.state_delta, f"state_delta of {agent.name}'s event")
                check_size(event.to_json(), f"An event of {agent.name}")
                event.author = event.author or agent.name
                event.id = event.id or ctx.lane.next_id()
                yield event
                if trace is not None:
                    trace.went_on()
                    await safe_point(trace)
    except DurableAdkError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # the last two end the worker
        raise raised(AgentError, type(error).__name__, str(error)) from error
