"""The loop of one node that the code of another node has called."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

from google.genai import types
from temporalio import activity

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.fence import is_superseded
from durable_adk.activities.local_runtime import Effects, LocalRuntime, renewed_lease
from durable_adk.calling.closing import closing, uninterrupted
from durable_adk.errors import AgentError, LeaseLostError
from durable_adk.flows.agent_run import AgentLoop
from durable_adk.flows.event_loop import run_invocation
from durable_adk.flows.graph.dynamic import DynamicNodeRun
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.state import LoopState
from durable_adk.sessions.lease_owner import LOCAL_PREFIX
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.agent_stack import StackFrame
from durable_adk.wire.checkpoint import Checkpoint, Counters, Cursor, PendingState
from durable_adk.wire.effect import Effect
from durable_adk.wire.graph.batch import ItemsStep
from durable_adk.wire.graph.dynamic import NodeCaller, OpenNode
from durable_adk.wire.graph.node_run import NodeEnd, NodeRun, NodeSite
from durable_adk.wire.manifest import AgentNode, ToolSpec
from durable_adk.wire.messages import InvocationRequest, InvocationResult
from durable_adk.wire.run_config import RunConfig
from durable_adk.wire.steps import AgentRun, NodeStep, Opened, ToolStep

R = TypeVar("R")


class DynamicNodeRuntime(LocalRuntime):
    """Performs the effects of a called node, until it waits or is cancelled.

    Args:
        deps: The stores, and the app with the called nodes.
        of: The session and the invocation of the code that calls.
        effects: Performs single effects.
        limits: The invocation's.
    """

    def __init__(
        self, deps: Dependencies, of: tuple[SessionKey, str], effects: Effects, limits: Limits
    ) -> None:
        self._deps, self._of = deps, of
        super().__init__(
            effects,
            deps.registry,
            limits=limits,
            run_child=self._run_agent_tool,
        )
        self._made = partial(DynamicNodeRuntime, deps, of, effects, limits)
        self._children: list[DynamicNodeRuntime] = []
        self.is_over = False
        """Whether no further step may begin."""

    def end(self) -> None:
        """Begin no further step."""
        self.is_over = True
        for child in self._children:
            child.end()

    async def _run_agent_tool(self, request: InvocationRequest) -> InvocationResult:
        """Run an agent used as a tool in this process; another attempt opens its invocation again.

        So the owner of its lease is the same in each attempt. An attempt that is cancelled leaves
        the invocation open, because another one may follow.
        """
        runtime, key, name = self._made(), request.key, request.invocation_id or ""
        self._children.append(runtime)
        owner = f"{LOCAL_PREFIX}{name}:{key.session_id}"
        async with renewed_lease(self._deps.sessions, key, name):
            outcome = await run_invocation(runtime, request, lease_owner=owner)
            while isinstance(outcome, Cursor):
                outcome = await run_invocation(runtime, outcome, lease_owner=owner)
            return outcome

    async def perform(self, step: Effect[R]) -> R:
        """See base class."""
        if self.is_over:
            raise asyncio.CancelledError
        key, invocation_id = self._of
        if await is_superseded(self._deps, key, invocation_id):
            # Its own results could not be told from those of the attempt that counts.
            raise LeaseLostError("A later attempt runs the code that has called the node.")
        _check_queue(step)
        return await super().perform(step)


def _check_queue(step: Effect[Any]) -> None:
    """Refuse a step that belongs on another task queue: this process cannot send it there.

    Raises:
        AgentError: It does; the message names the tool or node, and the remedy.
    """
    match step:
        case ToolStep(spec=ToolSpec(task_queue=str(queue))):
            what = f"Tool {step.tool!r}"
        case NodeStep(task_queue=str(queue)) | ItemsStep(step=NodeStep(task_queue=str(queue))):
            what = f"Node {step.node if isinstance(step, NodeStep) else step.step.node!r}"
        case _:
            return
    if activity.in_activity() and activity.info().task_queue != queue:
        raise AgentError(
            f"{what} has the task queue {queue!r}, and runs in the activity of the code that calls "
            "it, on another one: make it a node of the graph instead of calling it."
        )


@dataclass(kw_only=True)
class Totals:
    """What all nodes have in common that one run of the code calls."""

    counters: Counters
    used: dict[str, int]
    """See `Checkpoint.used`."""
    local_state: dict[str, Any]
    revision: int
    last_event_id: str | None = None
    text: str = ""
    runs: list[AgentRun] = field(default_factory=list[AgentRun])
    """The runs of agents that have ended."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a loop needs to know of its call."""

    step: NodeStep
    """The step of the code."""
    site: NodeSite
    """The run of the node."""
    caller: NodeCaller
    manifest: AgentNode
    message: types.Content | None
    """The user's message to the invocation."""
    state: dict[str, Any]
    """The session's state."""
    saved: OpenNode | None
    """Where the node waits; None: it has not begun."""


class DynamicNodeLoop:
    """Runs one called node until it has ended, or waits for an answer."""

    def __init__(self, call: Call, totals: Totals, runtime: DynamicNodeRuntime) -> None:
        self._call, self._totals, self._runtime = call, totals, runtime
        self.invocation = _invocation(call, totals, runtime)

    async def run(self, run: NodeRun) -> NodeEnd | OpenNode:
        """Run the node until it ends or waits.

        Args:
            run: The run, if it has not begun before.

        Returns:
            How it ended, or where it waits.

        Raises:
            DurableAdkError: It has failed for good; its event is stored, unless the whole
                invocation fails.
            CancelledError: The call was cancelled.
        """
        call, waits_at = self._call, None
        called = AgentLoop(self.invocation).called(call.site, run, above=call.step.run)
        work = asyncio.ensure_future(self._commit_all(called))
        waits = asyncio.ensure_future(self._until_it_waits())
        try:
            await asyncio.wait({work, waits}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                waits_at = self._open_node()
        finally:
            waits.cancel()
            await uninterrupted(self._leave(work))
        return waits_at or work.result()

    async def _commit_all(self, called: DynamicNodeRun) -> NodeEnd:
        async with closing(called.run()) as events:
            async for event in events:
                await self.invocation.commit(event)
        return called.end

    async def _until_it_waits(self) -> None:
        """Return once no branch of the node is busy."""
        while self.invocation.state.branches.busy > 0:
            await self._runtime.inbox.get()

    def _open_node(self) -> OpenNode:
        state = self.invocation.state
        return OpenNode(
            stack=state.checkpoint.stack.model_dump(mode="json"),
            branches=dict(state.branches.ids),
            waiting=list(self.invocation.pending.waiting),
            tasks=list(state.checkpoint.pending.tasks),
        )

    async def _leave(self, work: "asyncio.Task[NodeEnd]") -> None:
        """End what runs still, and add up what the node has done."""
        self._runtime.end()
        work.cancel()
        await asyncio.wait({work})
        self.add_up()

    @property
    def has_bodies(self) -> bool:
        """Whether agents have bodies of their own, whose positions are not kept here."""
        return self._call.manifest.any_custom()

    def add_up(self) -> None:
        """Add what the node has done to what all nodes have."""
        state, totals = self.invocation.state, self._totals
        checkpoint = state.checkpoint
        totals.revision = max(totals.revision, checkpoint.revision)
        totals.last_event_id = checkpoint.last_event_id or totals.last_event_id
        totals.text = checkpoint.final_text or totals.text
        totals.local_state |= state.local_state()
        totals.runs += state.agent_runs.take_ended() or []


def _invocation(call: Call, totals: Totals, runtime: DynamicNodeRuntime) -> Invocation:
    step, caller, saved = call.step, call.caller, call.saved
    checkpoint = Checkpoint(
        request=InvocationRequest(
            app=step.key.app_name,
            user=step.key.user_id,
            session=step.key.session_id,
            message="",
            invocation_id=step.invocation_id,
            run_config=step.run_config or RunConfig(),
            tool_run=caller.tool_run,
        ),
        opened=Opened(
            manifest=call.manifest,
            agent=call.manifest.name,
            limits=caller.limits,
            resumable=caller.resumable,
            registry="",
            budget=caller.budget,
            rules=caller.rules,
            hooks=caller.hooks,
        ),
        record=_record(step),
        epoch=step.run_epoch or 0,
        revision=totals.revision,
        opened_at=caller.opened_at,
        counters=totals.counters,
        local_state=totals.local_state,
        branches=saved.branches if saved else {},
        stack=StackFrame.model_validate(saved.stack if saved else {}),
        pending=_pending(saved, caller.answered),
        # Numbers of their own: those of the invocation's runs of agents are not known here.
        runs_begun=crc32(call.site.prefix.encode()) << 10,
    )
    state = LoopState(
        runtime=runtime,
        checkpoint=checkpoint,
        key=SessionKey(*step.key),
        lease_owner="",
        message=call.message or types.Content(role="user"),
        state=call.state if call.manifest.any_custom() else None,
    )
    checkpoint.used = state.budget.used = totals.used
    return Invocation(state)


def _record(step: NodeStep) -> InvocationRecord:
    return InvocationRecord(
        invocation_id=step.invocation_id,
        status=Status.RUNNING,
        epoch=step.run_epoch or 0,
        lease_owner="",
        start_seq=0,
    )


def _pending(saved: OpenNode | None, answered: list[str]) -> PendingState:
    if saved is None:
        return PendingState()
    return PendingState(
        waiting=[call for call in saved.waiting if call.call_id not in answered],
        answered=[name for name in saved.ids if name in answered],
    )
