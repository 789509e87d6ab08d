"""Runs the nodes that the code of a node calls, in the activity of that code (GR-150 to GR-162).

Each of them has a loop of its own, over the same effects as the invocation's, performed in this
process. The ids of their events depend on their paths, so another attempt finds what is stored and
does not do it again. How they ended, and where they wait, is stored in a `DynamicJournal` before
the code runs again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.fence import raise_fence
from durable_adk.activities.local_runtime import Effects
from durable_adk.activities.node.dynamic_loop import (
    Call,
    DynamicNodeLoop,
    DynamicNodeRuntime,
    Totals,
)
from durable_adk.activities.node.notes import CallNotes
from durable_adk.activities.step import ActiveStep
from durable_adk.agents.llm_agent import is_task
from durable_adk.apps.graph_nodes import check_called, check_nodes
from durable_adk.apps.graph_record import manifest_of_call
from durable_adk.calling.closing import uninterrupted
from durable_adk.context.activity import Context
from durable_adk.context.step_scope import step_session
from durable_adk.conversation.tool_responses import final_response
from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    DynamicNodeFailError,
    NodeInterruptedError,
    as_detail,
    as_raised,
    from_detail,
)
from durable_adk.events.event import Event
from durable_adk.flows.graph.retries import OF_INVOCATION
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.node import build_node
from durable_adk.log import get_logger
from durable_adk.retrying import STORE_TIMEOUT, retrying
from durable_adk.wire.checkpoint import Counters
from durable_adk.wire.graph.dynamic import (
    DynamicEnd,
    DynamicJournal,
    NodeCaller,
    OpenCall,
    OpenNode,
)
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef, NodeRun, NodeSite
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.steps import DynamicNodes, NodeStep

logger = get_logger(__name__)

CLOSED: Final = "The node that called this one has ended, or has failed."


class MakeEffects(Protocol):
    """Returns what performs effects; see `effects.EffectPerformer`."""

    def __call__(self, deps: Dependencies, *, lost: int) -> Effects:
        """Return it."""
        ...


class _CancelledByCodeError(DynamicNodeFailError, TimeoutError):
    """The code has cancelled the call in an earlier run, as a rule by a time limit."""


@dataclass(kw_only=True, eq=False)
class _Called:
    """One called node."""

    key: str
    """Its name and run id: the last part of its path."""
    run_id: str | None
    """The id that the code has chosen, if it has."""
    node: BaseNode
    value: Any
    """What the code gives it."""
    site: NodeSite
    branch: str | None
    done: "asyncio.Future[DynamicEnd | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """How it ended; None: it waits, or the invocation fails."""
    task: "asyncio.Task[None] | None" = None
    loop: DynamicNodeLoop | None = None
    awaited: int = 0
    """How many tasks of the code wait for its end."""


class NodeCalls:
    """The nodes that one run of a node's code calls.

    Args:
        active: The step of the code.
        caller: What it needs of the loop.
        effects: Performs the effects of the called nodes.
        context: The context of the code.
        messages: Takes the events that the code has yielded since the last call, and that are
            stored before the node's.
        yielded: The events that the code has yielded and that are not taken.
    """

    def __init__(
        self,
        active: ActiveStep[NodeStep],
        caller: NodeCaller,
        effects: MakeEffects,
        context: Context,
        *,
        messages: Callable[[], list[Event]],
        yielded: Sequence[Event],
    ) -> None:
        self._yielded = yielded
        self._active, self._step, self._caller = active, active.step, caller
        self._context, self._messages = context, messages
        self._task, self._variables = asyncio.current_task(), copy_context()
        app = active.deps.registry.app(active.step.key.app_name)
        self._nodes: dict[str, BaseNode] = app.called
        self._given: dict[str, Any] = dict(active.deps.given)
        self._deps = active.deps.with_called(app.with_called(self._nodes), self._given)
        self._looks = active.attempt.number > 1 or active.scope.ahead
        """Whether the store may have what the nodes do."""
        self._notes = CallNotes(active, looks=self._looks)
        self._effects = effects(self._deps, lost=int(self._looks))
        self._journal = DynamicJournal()
        self._calls: dict[str, _Called] = {}
        self._numbers = Counter[str]()
        self._failures: list[tuple[DynamicNodeFailError, DynamicEnd]] = []
        self._sending, self._refreshing = asyncio.Lock(), asyncio.Lock()
        self._known = active.step.revision
        """The revision of the session that the code sees."""
        self._is_over = False
        """Whether the code has ended."""
        self._totals = Totals(
            counters=Counters(model_calls=caller.model_calls, node_runs=caller.node_runs, events=0),
            used=dict(caller.used),
            local_state=dict(active.step.local_state),
            revision=active.step.revision,
        )
        self.delegate: _Called | None = None
        """The node whose output is the code's as well."""
        self.is_interrupted = False
        """Whether the code was ended by a `NodeInterruptedError`."""
        self.fatal: DurableAdkError | None = None
        """The error that ends the invocation, whatever the code does."""

    async def restore(self) -> None:
        """Continue with what earlier runs of the code have called; end earlier attempts."""
        await raise_fence(self._deps, self._step.key, self._step.invocation_id)
        if self._caller.journal is not None:
            self._journal = await self._notes.journal(self._caller.journal)

    # ----- calls of the code

    async def call(
        self,
        node_like: Any,
        value: Any,
        *,
        run_id: str | None = None,
        use_as_output: bool = False,
        use_sub_branch: bool = False,
        branch: str | None = None,
        isolation_scope: str | None = None,
    ) -> Any:
        """Run a node and return its output; see `Context.run_node`."""
        node = build_node(node_like)
        if node is START:
            raise ValueError("START is not a node that can run.")
        if self._is_over:
            raise AgentError(f"The code of {self._step.named.path} has ended; it runs no nodes.")
        if self.is_interrupted:  # the code is ending, and runs again
            raise NodeInterruptedError(f"{self._step.named.path} waits for an answer.")
        check_nodes(node)
        check_called(node)
        if (
            use_as_output
            and self.delegate is not None
            and (run_id is None or self.delegate.run_id != run_id)
        ):
            own = self._step.named.path
            raise ValueError(f"Node {own} already has a use_as_output delegate.")
        called = self._find(node, run_id, value)
        if called.task is None:
            site, own = called.site, self._step.named
            called.branch = branch or self._step.branch
            if use_sub_branch:
                called.branch = ".".join(filter(None, (called.branch, called.key)))
            site.scope = isolation_scope or (site.path if is_task(node) else own.scope)
            if use_as_output:
                self.delegate, site.output_for = called, [site.path, *own.output_for]
            work = self._drive(called)
            # In the runtime's context: the code's time limit and scope are not those of the node.
            called.task = asyncio.create_task(work, context=self._variables.copy())
        called.awaited += 1
        try:
            return await self._output_of(called)
        finally:
            called.awaited -= 1

    def _find(self, node: BaseNode, run_id: str | None, value: Any) -> _Called:
        """Return the call of an id, or a new one; ids are counted in the order of the calls."""
        if run_id is None:
            self._numbers[node.name] += 1
        elif not isinstance(run_id, str) or run_id.isdigit() or not run_id:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ValueError(
                f'Explicit run_id "{run_id}" for node "{node.name}" must contain non-numeric '
                "characters to prevent collision with auto-generated IDs."
            )
        key = f"{node.name}@{run_id or self._numbers[node.name]}"
        if "/" in key:
            raise ValueError(f'run_id "{run_id}" must not contain "/", which separates paths.')
        if key not in self._calls:
            own = self._step.named
            path, prefix = f"{own.path}/{key}", f"{own.prefix}.{key}"
            site = NodeSite(
                path=path,
                prefix=prefix,
                input=NodeRef(event=prefix, take="given"),
                output_for=[path],
            )
            self._calls[key] = _Called(
                key=key, run_id=run_id, node=node, value=value, site=site, branch=None
            )
        return self._calls[key]

    async def _output_of(self, called: _Called) -> Any:
        try:
            ended = await asyncio.shield(called.done)
        except asyncio.CancelledError:
            if called.awaited == 1 and not self.is_interrupted:  # else it ends before the code does
                await self._cancelled(called)
            raise
        if ended is not None:
            try:
                await self._refresh()
            except OF_INVOCATION as error:
                self.fatal, ended = self.fatal or error, None
        if ended is None:
            self.is_interrupted = True
            raise NodeInterruptedError(f"{called.site.path} waits for an answer.")
        if ended.error is not None:
            kind = _CancelledByCodeError if ended.cancelled else DynamicNodeFailError
            error = kind(
                f"Dynamic node {called.node.name} failed",
                error=as_raised(from_detail(ended.error)),
                error_node_path=ended.path,
            )
            self._failures.append((error, ended))
            raise error
        output = ended.end and ended.end.output
        return output and self._deps.node_values(self._step, self._context.scope).of(output)

    async def _cancelled(self, called: _Called) -> None:
        """Cancel a node whose caller was cancelled, for example by a time limit of the code."""
        if called.task is None or called.done.done():
            return
        called.task.cancel()
        await uninterrupted(_gathered(called.task))
        if self._task is not None and not self._task.cancelling():
            # By the code itself, which another run of it must see as well.
            text = f"{called.site.path} was cancelled by the code that called it."
            await uninterrupted(self._failed(called, AgentError(text), cancelled=True))

    async def _refresh(self) -> None:
        """Let the code see what the nodes have stored."""
        async with self._refreshing:
            revision = self._totals.revision
            if revision == self._known:
                return
            step = self._step.model_copy(update={"revision": revision})
            _, fresh = await self._deps.scope(step)
            state, scope = self._context.state, self._context.scope
            values = scope.session.state
            said = {k: v for one in self._yielded for k, v in one.actions.state_delta.items()}
            state.refresh({**fresh.session.state, **self._totals.local_state, **said})
            scope.events = fresh.events
            scope.session = step_session(step.key, fresh.events, state=values, revision=revision)
            self._known = revision

    # ----- runs of nodes

    async def _drive(self, called: _Called) -> None:
        try:
            ended = self._journal.ended.get(called.key) or await self._ended(called)
        except OF_INVOCATION as error:  # the code would lack what it needs
            self.fatal = self.fatal or error
            called.done.set_result(None)
        except Exception as error:  # noqa: BLE001 - the code gets it
            called.done.set_exception(error)
        except BaseException:
            called.done.cancel()
            raise
        else:
            if ended is not None:
                self._journal.ended[called.key] = ended
                self._journal.open.pop(called.key, None)
            called.done.set_result(ended)

    async def _ended(self, called: _Called) -> DynamicEnd | None:
        """Run a node; return None if it waits.

        Raises:
            DurableAdkError: The invocation fails.
        """
        site = called.site
        await self._send_messages()
        known = await self._notes.failure(site)
        if known is not None:
            return known
        self._nodes[site.path] = called.node
        self._given[site.prefix] = await self._notes.input(site, called.node, called.value)
        saved = self._journal.open.get(called.key)
        loop = called.loop = self._loop(
            manifest_of_call(called.node, self._step.agent), site, saved
        )
        run = NodeRun(run_id=0, input=site.input, branch=called.branch, event_id=site.prefix)
        try:
            end = await loop.run(run)
        except OF_INVOCATION:
            raise
        except DurableAdkError as error:
            return await self._failed(called, error)
        if isinstance(end, NodeEnd):
            return DynamicEnd(end=end)
        if loop.has_bodies:
            text = f"{site.path} waits for an answer below an agent with a body of its own."
            return await self._failed(called, AgentError(f"{text} Make that agent a node."))
        self._journal.open[called.key] = end
        return None

    def _loop(
        self, manifest: AgentNode, site: NodeSite, saved: OpenNode | None = None
    ) -> DynamicNodeLoop:
        call = Call(
            step=self._step,
            site=site,
            caller=self._caller,
            manifest=manifest,
            message=self._context.user_content,
            state=dict(self._context.scope.session.state),
            saved=saved,
        )
        of = (self._step.key, self._step.invocation_id)
        runtime = DynamicNodeRuntime(self._deps, of, self._effects, self._caller.limits)
        return DynamicNodeLoop(call, self._totals, runtime)

    async def _failed(
        self, called: _Called, error: DurableAdkError, *, cancelled: bool = False
    ) -> DynamicEnd:
        ended = DynamicEnd(
            error=as_detail(error), path=error.node_path or called.site.path, cancelled=cancelled
        )
        if called.loop is not None:
            await self._close_calls(called.loop.invocation.pending.waiting)
        self._journal.ended[called.key] = ended
        self._journal.open.pop(called.key, None)
        await self._notes.keep_failure(called.site, ended)
        return ended

    async def _close_calls(self, calls: Iterable[OpenCall]) -> None:
        for call in calls:
            name = f"{self._step.event_id}.{call.call_id}"
            await self._commit(final_response(call, CLOSED, branch=self._step.branch, name=name))

    async def _send_messages(self) -> None:
        """Store what the code has yielded: it comes before the events of the node."""
        async with self._sending:
            for event in self._messages():
                await self._commit(event)

    async def _commit(self, event: Event) -> None:
        """Store an event of the code itself, as the loop would, between those of the nodes."""
        step = self._step
        if self._looks:
            find = retrying(self._deps.sessions.find_event, STORE_TIMEOUT)
            if await find(step.key, event.id) is not None:
                return
        loop = self._loop(AgentNode(name=step.agent, kind="graph"), step.named)
        try:
            await loop.invocation.commit(event)
        finally:
            loop.add_up()

    # ----- the end of the code

    async def settle(self) -> None:
        """Wait until every node has ended, or waits.

        Raises:
            DynamicNodeFailError: One has failed after the end of the code (GR-159).
        """
        late: dict[str, _Called] = {}
        while left := {k: one for k, one in self._calls.items() if not one.done.done()}:
            late |= left
            await asyncio.wait({one.done for one in left.values()})
            await asyncio.sleep(0)  # what the code has left may call others
        for called in [one for one in late.values() if not one.done.cancelled()]:
            ended = called.done.result()
            if ended is None:
                self.is_interrupted = True
            elif ended.error is not None and not self.is_interrupted:
                await self._output_of(called)

    async def close(self) -> None:
        """Cancel the nodes that still run; none begins any more."""
        self._is_over = True
        tasks = [called.task for called in self._calls.values() if called.task is not None]
        for task in tasks:
            task.cancel()
        await uninterrupted(_gathered(*tasks))
        for called in self._calls.values():
            called.done.cancel()

    @property
    def waiting(self) -> list[OpenNode]:
        """The nodes that wait; the code runs again once one of them has an answer."""
        return [
            node
            for key, node in self._journal.open.items()
            if key in self._calls or self.is_interrupted
        ]

    def output_of_delegate(self) -> NodeRef | None:
        """Return a reference to the output of the node whose output is the code's as well."""
        ended = self._journal.ended.get(self.delegate.key) if self.delegate else None
        return ended.end.output if ended and ended.end else None

    def failure_of(self, error: Exception) -> DynamicEnd | None:
        """Return the end of the node whose failure an exception of the code reports, or None."""
        user = error.original if isinstance(error, DurableAdkError) else None
        chain = (error, user, user and user.__cause__)  # google-adk's error has ours as cause
        return next((ended for raised, ended in self._failures if raised in chain), None)

    async def outcome(self, *, again: bool, failed: str | None = None) -> DynamicNodes | None:
        """Return what the nodes have done; None: the code has never called any.

        Args:
            again: Whether the code may run again.
            failed: The path of the node whose error the code has raised, if it has failed.
        """
        if not (self._calls or self._journal.ended or self._journal.open):
            return None
        waiting = [] if failed is not None else self.waiting
        await self._close_others(waiting)
        name = None
        if again:
            name = self._step.event_id
            if failed is not None:  # another attempt repeats what has failed (GR-115)
                ended = self._journal.ended
                ended = {key: one for key, one in ended.items() if one.error is None}
                self._journal = DynamicJournal(ended=ended)
            await self._notes.keep_journal(name, self._journal)
        counters, before, local = self._totals.counters, self._caller, self._step.local_state
        state = self._totals.local_state
        return DynamicNodes(
            journal=name,
            open_calls=[call for node in waiting for call in node.waiting],
            open_tasks=[task for node in waiting for task in node.tasks],
            used={key: n - before.used.get(key, 0) for key, n in self._totals.used.items()},
            events=counters.events,
            model_calls=counters.model_calls - before.model_calls,
            tool_calls=counters.tool_calls,
            node_runs=counters.node_runs - before.node_runs,
            revision=self._totals.revision,
            last_event_id=self._totals.last_event_id,
            text=self._totals.text,
            failed=failed,
            runs=self._totals.runs,
            local_state={key: v for key, v in state.items() if local.get(key) != v},
            state=await self._state() if before.wants_state else None,
        )

    async def _state(self) -> dict[str, Any]:
        _, state = await self._deps.sessions.read_state(self._step.key)
        return state

    async def _close_others(self, waiting: list[OpenNode]) -> None:
        """Answer the calls of nodes that the code has ended without (B-22)."""
        for key, node in list(self._journal.open.items()):
            if any(node is one for one in waiting):
                continue
            await self._close_calls(node.waiting)
            del self._journal.open[key]


async def _gathered(*tasks: "asyncio.Task[None]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
