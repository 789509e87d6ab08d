"""Runs agents: callbacks, body, callbacks (AGT-5..8)."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling.closing import closing
from durable_adk.context.loop import (
    InvocationContext,
    NoService,
)
from durable_adk.conversation.routing import hand_over_by_event
from durable_adk.errors import AgentError, DurableAdkError
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import (
    AgentScope,
    Branch,
    CallSite,
    CommitBy,
    NodeCall,
    commit_decision,
)
from durable_adk.flows.custom_bodies import BodyLoop, CustomBodies
from durable_adk.flows.graph.body import node_parts, run_graph
from durable_adk.flows.graph.dynamic import DynamicNodeRun
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.llm_flow import run_llm
from durable_adk.flows.plugin_hooks import agent_failed
from durable_adk.flows.workflow_agents import run_loop, run_parallel, run_sequential
from durable_adk.wire.agent_stack import HandedOver, RunPosition, StackFrame
from durable_adk.wire.graph.node_run import NodeRef, NodeRun, NodeSite
from durable_adk.wire.manifest import AgentNode, HandOver
from durable_adk.wire.steps import CallbackStep, Hook, StepResult

MAX_HOPS = 100
"""Maximum hand-overs without a model call between them; model calls have their own limit."""


class AgentLoop:
    """Runs the agents of an invocation by their recorded nodes (D6)."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._state = invocation.state
        self._bodies = CustomBodies(invocation, self._run_node, self._built_in)

    def root(self) -> AsyncGenerator[Event, None]:
        """Run the invocation's first agent."""
        state, checkpoint = self._state, self._state.checkpoint
        manifest = checkpoint.opened.manifest
        node = manifest.find(checkpoint.opened.agent) or manifest
        ctx = self._context(node.name)
        call = NodeCall(site=_root_site(node, state.main_branch)) if node.mode == "task" else None
        site = CallSite(ctx=ctx, frame=checkpoint.stack, branch=state.main_branch, call=call)
        return self._run_node(node, None, site)

    def called(self, site: NodeSite, run: NodeRun, *, above: int | None) -> DynamicNodeRun:
        """Return the run of a node that another one's code calls: it is the invocation's manifest.

        Args:
            site: The run for steps.
            run: The run, if it has not begun before.
            above: Number of the run of the agent above, for telemetry.
        """
        state, checkpoint = self._state, self._state.checkpoint
        node = checkpoint.opened.manifest
        position = RunPosition(
            agent=node.name, start=checkpoint.revision, closes=False, run=above or None
        )
        scope = AgentScope(
            ctx=self._context(node.name),
            node=node,
            agent=None,
            branch=state.main_branch,
            frame=checkpoint.stack,
            position=position,
            commit_by=CommitBy.STEP,
        )
        parts = node_parts(self._invocation, node, self._run_in_graph)
        return DynamicNodeRun(parts, scope, site, run)

    def _context(self, agent: str) -> InvocationContext:
        state = self._state
        return InvocationContext(
            invocation_id=state.invocation_id,
            agent=None,
            agent_name=agent,
            session=state.session,
            user_content=state.user_content,
            run_config=state.checkpoint.request.run_config,
            session_service=NoService("session_service"),
            artifact_service=NoService("artifact_service"),
            memory_service=NoService("memory_service"),
            credential_service=NoService("credential_service"),
            end_invocation=state.end_invocation,
            loop=BodyLoop(self._bodies),
        )

    def _built_in(self, node: AgentNode, scope: AgentScope) -> AsyncGenerator[Event, None]:
        match node.kind:
            case "sequential":
                return run_sequential(node, scope, self._run_child)
            case "loop":
                return run_loop(node, scope, self._run_child)
            case "parallel":
                return run_parallel(node, scope, self._run_child, self._invocation.pending)
            case "graph":
                return run_graph(self._invocation, node, scope, self._run_in_graph)
            case _:
                return run_llm(self._invocation, node, scope, self._run_in_graph)

    # ----- one run of agents

    def _run_child(self, node: AgentNode, above: AgentScope) -> AsyncGenerator[Event, None]:
        frame = above.frame.enter()
        call = None if above.call is None else above.call.of_part()
        site = CallSite(ctx=above.ctx, frame=frame, branch=above.branch, above=above, call=call)
        return self._run_node(node, None, site)

    def _run_in_graph(
        self, node: AgentNode, above: AgentScope, call: NodeCall
    ) -> AsyncGenerator[Event, None]:
        frame = above.frame.enter()
        site = CallSite(ctx=above.ctx, frame=frame, branch=above.branch, above=above, call=call)
        return self._run_node(node, None, site)

    async def _run_node(
        self, node: AgentNode, agent: BaseAgent | None, site: CallSite
    ) -> AsyncGenerator[Event, None]:
        """Run an agent, the agents that it hands over to, then the after callbacks, last one first.

        A loop instead of recursion: agents may hand over to each other without end (TRAP-29).
        """
        frame, position = site.frame, site.frame.resumed(RunPosition)
        counters = self._state.checkpoint.counters
        hops, calls = 0, counters.model_calls
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
                target = self._invocation.target(scope.position.transfer)
            except DurableAdkError as error:
                self._state.agent_runs.end(run, error.error_type)
                await agent_failed(self._state, scope, error)
                raise
            self._state.agent_runs.end(run)
            if self._has(Hook.AFTER_AGENT, node):
                finishing.append(scope)
            while target is None and finishing:
                last = finishing.pop()
                last.hooks_follow = bool(finishing)
                result = await self._after(last)
                if result.event:
                    yield result.event
                target = self._invocation.target(result.transfer)
            if target is None:
                return
            hops = hops + 1 if calls == counters.model_calls else 0
            calls = counters.model_calls
            _require_end(hops, node, target)
            node, agent, position = target, None, None
            frame.clear()

    async def _after(self, scope: AgentScope) -> StepResult:
        """Run the after callbacks of an agent, unless its run skips them."""
        if not _is_unfinished(scope):
            return StepResult()
        try:
            return await self._callback(Hook.AFTER_AGENT, scope)
        except DurableAdkError as error:
            await agent_failed(self._state, scope, error)
            raise

    def _scope(
        self,
        node: AgentNode,
        agent: BaseAgent | None,
        site: CallSite,
        position: RunPosition | None,
        finishing: list[AgentScope],
    ) -> AgentScope:
        """Return the scope of a run that begins or is resumed.

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
        return self._new_scope(node, agent, site, position, commit_by, hooks_follow=bool(finishing))

    def _more_follows(self) -> bool:
        """Return whether there is work left between the end of the agents and of the invocation."""
        state = self._state
        return state.hooked("after_run_callback") or state.checkpoint.opened.compacts

    def _new_scope(
        self,
        node: AgentNode,
        agent: BaseAgent | None,
        site: CallSite,
        position: RunPosition,
        commit_by: CommitBy,
        *,
        hooks_follow: bool,
    ) -> AgentScope:
        loop = BodyLoop(self._bodies)
        ctx = replace(site.ctx, agent=agent, agent_name=node.name, loop=loop)
        loop.scope = AgentScope(
            ctx=ctx,
            node=node,
            agent=agent,
            branch=site.branch,
            frame=site.frame.enter("body"),
            position=position,
            commit_by=commit_by,
            call=site.call,
            hooks_follow=hooks_follow,
        )
        return loop.scope

    def _handed_over(self, site: CallSite, begun: AgentNode, one: HandedOver) -> AgentScope:
        """Return the after callbacks' scope of an agent that handed over in an earlier run."""
        node = self._state.checkpoint.opened.manifest.find(one.agent) or begun
        commit_by, _ = commit_decision(site.above, node, hooks_follow=True)
        loop = BodyLoop(self._bodies)
        loop.scope = AgentScope(
            ctx=replace(site.ctx, agent=None, agent_name=one.agent, loop=loop),
            node=node,
            agent=None,
            branch=site.branch,
            frame=StackFrame(),
            position=RunPosition(agent=one.agent, start=one.start, closes=False, run=site.run),
            commit_by=commit_by,
            call=site.call,
        )
        return loop.scope

    def _saved_node(self, position: RunPosition, begun: AgentNode) -> AgentNode:
        known = self._state.checkpoint.opened.manifest.find(position.agent)
        return position.node or known or begun

    async def _run_one(self, scope: AgentScope, *, begun: bool) -> AsyncGenerator[Event, None]:
        """Run the before callbacks, unless the body began in an earlier run, and then the body."""
        if self._has(Hook.BEFORE_AGENT, scope.node) and not begun:
            result = await self._callback(Hook.BEFORE_AGENT, scope)
            if result.event:
                yield result.event
                scope.position.transfer = result.transfer
                if result.event.content:
                    scope.answered = True  # replaces body and after callbacks (AGT-6)
                    return
                if result.transfer and (scope.node.kind == "llm" or _is_llm(scope.agent)):
                    return  # as in ADK, any other agent hands over at the end of its body
        if self._has(Hook.AFTER_AGENT, scope.node):
            scope.hooks_follow = True
        if not scope.end_invocation:
            async with closing(self._body(scope)) as events:
                async for event in events:
                    own = _own_hand_over(scope, event)  # before plugins change the event
                    yield event
                    scope.position.transfer = own or scope.position.transfer

    def _body(self, scope: AgentScope) -> AsyncGenerator[Event, None]:
        if scope.node.kind == "custom" and scope.agent is not None:
            return self._bodies.own_code(scope.agent, scope)
        return self._bodies.run_built_in(scope.node, scope)

    def _has(self, hook: Hook, node: AgentNode) -> bool:
        """Return whether the agent has callbacks of this kind, or plugins have this hook."""
        if node.kind == "graph":
            return False
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


def _root_site(node: AgentNode, branch: Branch) -> NodeSite:
    """Return the run of an agent that has the user's message as its task (GR-173)."""
    path = f"{node.name}@1"
    return NodeSite(
        path=path,
        prefix=branch.prefix,
        input=NodeRef.user_message(),
        output_for=[path],
        scope=path,
    )


def _require_end(hops: int, node: AgentNode, target: AgentNode) -> None:
    """Raise AgentError if agents hand over to each other, and no limit would ever end it."""
    if hops > MAX_HOPS:
        raise AgentError(
            f"Callbacks have handed over {MAX_HOPS} times, last from {node.name!r} to "
            f"{target.name!r}, and no agent has called its model: it would never end."
        )


def _is_llm(agent: BaseAgent | None) -> bool:
    return isinstance(agent, LlmAgent)


def _own_hand_over(scope: AgentScope, event: Event) -> HandOver | None:
    """Return the agent to which a custom body hands over by an event of its own."""
    if scope.node.kind != "custom" or scope.agent is None or event.author != scope.node.name:
        return None
    return hand_over_by_event(scope.agent, event)


def _unfinished(position: RunPosition | None) -> list[HandedOver]:
    return position.unfinished if position else []


def _is_unfinished(scope: AgentScope) -> bool:
    """Return whether the agent's after callbacks are yet to run."""
    return not (scope.end_invocation or scope.answered)
