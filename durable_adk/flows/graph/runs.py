"""Runs of nodes side by side: what a graph and a parallel worker have in common.

Each run is a task with a branch of its own. The events that a step leaves to the loop, and those of
agents, pass through one queue; the task waits until its event is committed (RUN-3). The order of
the queue is the order in which steps completed. That is in the workflow's history, so a replay sees
the same one.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from durable_adk.calling.closing import abandoned, closing, uninterrupted
from durable_adk.conversation.nodes.events import is_root_output, mark
from durable_adk.conversation.pending_calls import FINAL_RESPONSES
from durable_adk.conversation.tool_responses import error_response
from durable_adk.errors import (
    AgentError,
    BudgetExceededError,
    DurableAdkError,
    EventConflictError,
    InvocationCancelledError,
    InvocationTerminatedError,
    LeaseLostError,
    LlmCallsLimitExceededError,
    NodeTimeoutError,
    PayloadLostError,
    StoreUnavailableError,
    from_detail,
    raised,
)
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, Branch, CommitBy, NodeCall
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.pending_calls import require_answerable
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.wire.agent_stack import NodeEnd, NodeRef, NodeRun, NodeSite
from durable_adk.wire.manifest import AgentNode, GraphNode
from durable_adk.wire.steps import NodeStep, StepResult

RunAgent = Callable[[AgentNode, AgentScope, NodeCall], AsyncGenerator[Event, None]]
"""Runs an agent, or a graph, as a node of the graph of the scope."""


OF_INVOCATION = (
    BudgetExceededError,
    EventConflictError,
    InvocationCancelledError,
    InvocationTerminatedError,
    LeaseLostError,
    LlmCallsLimitExceededError,
    PayloadLostError,
    StoreUnavailableError,
)
"""Errors that end the invocation: no other attempt of a node could do better."""
FAILED = "The attempt of its node has failed; answer the next one's call, if there is one."


@dataclass(eq=False)
class NodeTask:
    """One run of a node."""

    node: GraphNode
    run: NodeRun
    site: NodeSite
    """The run for steps; see `current_site`."""
    scope: AgentScope
    """The graph's scope, on the branch of the run."""
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    end: NodeEnd | None = None

    def begin_again(self) -> None:
        """Begin another attempt: nothing of the last one is the agent's any more."""
        self.run.talks = False
        self.scope.frame.clear()
        self.scope.branch.leave()
        self.scope.branch = Branch(attempt_prefix(self.run), self.scope.branch.branches)

    def current_site(self) -> NodeSite:
        """Return the site as the present attempt and pass have it."""
        return self.site.model_copy(
            update={
                "prefix": self.scope.branch.prefix,
                "attempt": self.run.attempt,
                "answered": list(self.run.answered),
            }
        )


def attempt_prefix(run: NodeRun) -> str:
    """Return the prefix of the ids of an attempt's events."""
    return run.event_id if run.attempt == 1 else f"{run.event_id}~{run.attempt}"


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """What runs of nodes work with."""

    invocation: Invocation
    node: AgentNode
    """The graph."""
    run_agent: RunAgent
    run_worker: "Callable[[NodeParts, NodeTask], AsyncGenerator[Event, None]]"


class NodeRuns(ABC):
    """Runs of nodes side by side."""

    def __init__(self, parts: NodeParts, scope: AgentScope, site: NodeSite) -> None:
        self.parts = parts
        self.scope = scope
        self.site = site
        """The run of the graph, or of the worker."""
        self.tasks: dict[str, NodeTask] = {}
        self._invocation = parts.invocation
        self._busy = True
        self._news = asyncio.Queue[tuple[NodeTask, Event | BaseException | None]]()

    @abstractmethod
    def begin(self) -> None:
        """Launch the runs that an earlier workflow run has left, and those that are due."""

    def waits(self) -> None:
        """Launch what may run while a run waits for an answer: by default nothing."""
        return

    @abstractmethod
    def ended(self, key: str, task: NodeTask) -> None:
        """Record the end of a run, and launch what it lets start."""

    outlives_failures = False
    """Whether the failure of a run is not that of all."""

    def failed(self, key: str, task: NodeTask, error: BaseException) -> None:
        """Record the failure of a run, which fails all unless a subclass says otherwise.

        Raises:
            BaseException: The error.
        """
        del key, task
        raise error

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the events that the loop has to commit, and those of agents.

        Raises:
            DurableAdkError: A run failed for good; all others were cancelled.
        """
        loop = asyncio.get_running_loop()
        try:
            self.begin()
            self._hold(not self.tasks)
            while self.tasks:
                task, item = await self._news.get()
                if isinstance(item, Event):
                    if task.site.path in (item.node_info.output_for or ()):
                        self.claim(task)
                    yield item
                    task.committed.set()
                elif item is not None:
                    self._land(task, item)
                else:
                    self._land(task)
        finally:
            if not abandoned(loop):
                self._hold(True)
                await uninterrupted(self._stop())

    def _hold(self, busy: bool) -> None:
        """Count this branch as busy, or not, while its nodes are instead."""
        if busy is not self._busy:
            self._busy = busy
            self.scope.branch.branches.busy += 1 if busy else -1

    def count(self) -> None:
        """Count a run of a node that is about to begin.

        Raises:
            BudgetExceededError: The invocation may begin no more of them.
        """
        checkpoint = self._invocation.state.checkpoint
        limit = checkpoint.opened.limits.max_node_runs
        if checkpoint.counters.node_runs >= limit:
            raise BudgetExceededError(
                f"The invocation has begun {limit:,} runs of nodes, the limit. Raise "
                "Limits.max_node_runs, or find out why the graph does not end."
            )
        checkpoint.counters.node_runs += 1

    def launch(
        self, key: str, node: GraphNode, run: NodeRun, site: NodeSite, *, decided: bool = False
    ) -> None:
        """Start the task of a run.

        Args:
            key: The run's name among those that run now.
            node: The node.
            run: The run.
            site: The run for steps.
            decided: Whether the loop decides if an output is stored.
        """
        scope = self.scope
        task = NodeTask(
            node=node,
            run=run,
            site=site,
            scope=replace(
                scope,
                ctx=replace(scope.ctx, branch=run.branch),
                branch=Branch(attempt_prefix(run), scope.branch.branches),
                frame=scope.frame.enter(key),
                commit_by=CommitBy.LOOP if decided else scope.commit_by,
                call=None,
            ),
        )
        self.tasks[key] = task
        scope.branch.branches.busy += 1
        task.task = asyncio.ensure_future(self._forward(task))

    def scope_of(self, node: GraphNode, path: str) -> str | None:
        """Return the `isolation_scope` of a run: its own if a task agent is the node (GR-82)."""
        driven = self.parts.node.children if node.kind == "agent" else []
        talks = any(one.mode == "task" for one in driven if one.name == node.name)
        return path if talks else self.site.scope

    @property
    def talks(self) -> bool:
        """Whether a task agent waits for the user, so that no further run begins (GR-73)."""
        return any(task.run.talks for task in self.tasks.values())

    def _talk(self, task: NodeTask, talks: bool) -> None:
        """Note that a task agent waits for the user, or does so no more."""
        task.run.talks = talks
        above = self.scope.call and self.scope.call.talks
        if above:
            above(self.talks)
        if not talks:
            self.waits()

    def _land(self, task: NodeTask, error: BaseException | None = None) -> None:
        key = next(key for key, one in self.tasks.items() if one is task)
        if error is not None:
            self.failed(key, task, error)
        del self.tasks[key]
        self.scope.frame.leave(key)
        try:
            if error is None:
                self.ended(key, task)
            self._hold(not self.tasks)  # before the run leaves: a pause begins when none is busy
        finally:
            self._leave(task)

    def _leave(self, task: NodeTask) -> None:
        task.scope.branch.leave()
        self._invocation.pending.join()

    async def _stop(self) -> None:
        """Cancel the nodes that run, and wait for their ends.

        A step that is about to finish does so and swallows the cancellation. Because the branch is
        marked as stopped, the next step does not begin.
        """
        stopped, self.tasks = list(self.tasks.values()), {}
        tasks = [one.task for one in stopped if one.task is not None]
        for one in stopped:
            one.scope.branch.stop()
            one.committed.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in stopped:
            self._leave(one)

    async def _forward(self, task: NodeTask) -> None:
        try:
            await self._attempts(task)
        except BaseException as error:  # noqa: BLE001 - `run` raises it again
            self._news.put_nowait((task, error))
        else:
            self._news.put_nowait((task, None))

    async def _send(self, task: NodeTask, event: Event) -> None:
        """Have an event committed."""
        if task.scope.branch.stopped:
            raise asyncio.CancelledError
        task.committed.clear()
        self._news.put_nowait((task, event))
        # What the loop is committing is stored, whether the run is cancelled or not.
        await uninterrupted(task.committed.wait())

    # ----- one run of a node

    async def _attempts(self, task: NodeTask) -> None:
        """Make attempts of a run, until one succeeds (GR-110 to GR-113).

        Raises:
            DurableAdkError: The last one failed. Each failed attempt has an event.
        """
        run, runtime = task.run, self._invocation.state.runtime
        while True:
            if run.again_at is not None:
                await asyncio.sleep(max(run.again_at - runtime.now(), 0.0))
                run.again_at = None
            await self._invocation.continuing.safe_point()
            try:
                await self._in_time(task)
            except OF_INVOCATION:
                raise
            except DurableAdkError as error:
                if error is self._invocation.pending.failure:
                    raise  # the deadline of a call, which ends the invocation
                if error.node_path is None:
                    error.node_path = task.site.path
                    await self._send(task, self._failure(task, error))
                delay = _retry_delay(task, error)
                for event in (
                    self._closing(task) if delay is not None or self.outlives_failures else ()
                ):
                    await self._send(task, event)
                if delay is None:
                    raise
                run.attempt, run.again_at = run.attempt + 1, runtime.now() + delay
                task.begin_again()
            else:
                return

    async def _in_time(self, task: NodeTask) -> None:
        """Make one attempt. What the loop drives is cancelled here when its time is up."""
        node = task.node
        limit = asyncio.timeout(node.timeout if node.kind in ("agent", "worker") else None)
        finished = False
        try:
            async with limit, closing(self._attempt(task)) as events:
                async for event in events:
                    await self._send(task, event)
                    ends = task.site.path in (event.node_info.output_for or ())
                    if limit.expired() and not ends:
                        break  # a step that finished in spite of it has swallowed the cancellation
                else:
                    finished = True
        except TimeoutError:
            if not limit.expired():
                raise  # from inside, for example from a tool
        if limit.expired() and not finished:
            raise NodeTimeoutError(node_name=node.name, timeout=node.timeout or 0.0)

    def _closing(self, task: NodeTask) -> list[Event]:
        """Return responses to the calls of a failed attempt that still wait for an answer."""
        events: list[Event] = []
        for call in self._invocation.pending.forget_branch(task.scope.branch.prefix):
            event = error_response(
                call.call_id, call.name, FAILED, author=call.author, branch=task.run.branch
            )
            event.id = task.scope.branch.next_id()
            event.custom_metadata = {FINAL_RESPONSES: True}
            mark(event, task.site)
            events.append(event)
        return events

    def _failure(self, task: NodeTask, error: DurableAdkError) -> Event:
        """Return the event of a failed attempt of an agent or a graph (GR-85)."""
        driven = [one for one in self.parts.node.children if one.name == task.node.name]
        agent = any(one.kind != "graph" for one in driven)
        event = Event(
            id=task.scope.branch.next_id(),
            author=task.node.name if agent else self.parts.node.name,
            branch=task.run.branch,
            error_code=error.error_type,
            error_message=error.message,
        )
        mark(event, task.site)
        return event

    def _attempt(self, task: NodeTask) -> AsyncGenerator[Event, None]:
        match task.node.kind:
            case "agent":
                return self._agent(task)
            case "worker":
                return self.parts.run_worker(self.parts, task)
            case _:
                return self._step(task)

    def claim(self, task: NodeTask) -> None:
        """Check an output that the loop commits, before it does.

        Raises:
            DurableAdkError: It must not be stored: the graph, and not only the run, fails.
        """
        del task

    async def _step(self, task: NodeTask) -> AsyncGenerator[Event, None]:
        """Run the node's code as an activity, and wait for what it asks (GR-133, GR-134)."""
        run, node = task.run, task.node
        while True:
            if run.asked:
                await self._wait(task)
                await self._invocation.continuing.safe_point()
            answers = bool(run.answered) and not node.reruns
            async with closing(self.step(task, answers=answers)) as events:
                async for event in events:
                    yield event
            if not run.asked:
                return

    async def _wait(self, task: NodeTask) -> None:
        """Wait for answers: for all of them, or if the node runs again for any."""
        run, pending = task.run, self._invocation.pending
        while run.asked:
            name = await pending.answer_to(run.asked)
            found = {name, *pending.consume(run.asked)}
            run.answered += [one for one in run.asked if one in found]
            run.asked = [one for one in run.asked if one not in found]
            if task.node.reruns:
                break
        for name in run.asked:  # the code makes those again that it still needs (GR-134)
            pending.forget(name)
        run.asked.clear()

    async def step(
        self, task: NodeTask, *, answers: bool = False, collected: NodeRef | None = None
    ) -> AsyncGenerator[Event, None]:
        """Run the node's code, or what the runtime does for the node, as an activity.

        Args:
            task: The run.
            answers: See `NodeStep.answers`.
            collected: The outputs of a worker's items; None: they have not run.
        """
        invocation, scope, node = self._invocation, task.scope, task.node
        fields = invocation.step_fields(scope, scope.branch.next_id())
        site = task.current_site()
        if collected is not None:
            site.input = collected
        fields["site"] = site
        step = NodeStep(
            **fields,
            attempt_timeout=node.timeout or invocation.state.checkpoint.opened.limits.tool_timeout,
            node=node.name,
            kind=node.kind,
            answers=answers,
            collects=collected is not None,
            returns_event=invocation.state.reads_state or is_root_output(task.site.output_for),
        )
        result = await invocation.state.runtime.perform(step)
        invocation.take(result)
        self._check_questions(task, result)
        for message in result.more:
            if message.event is not None:
                yield message.event
        if result.event is not None:
            yield result.event
            self._expect(task, result)
        elif result.seq is not None:
            invocation.committed_by_step(step.event_id, result.seq)
        if result.error is not None:
            error = from_detail(result.error)
            error.node_path = task.site.path  # the event is committed
            raise error
        task.end = result.node

    def _check_questions(self, task: NodeTask, result: StepResult) -> None:
        """Check the ids of a run's questions before these are stored (B-18).

        Raises:
            AgentError: Another run waits for an answer to the same id.
        """
        taken = self._invocation.pending.reserve(result.waits)
        if taken is not None:
            raise AgentError(
                f"{task.site.path} asks with the id {taken!r}, for which another node waits "
                "already; give each RequestInput that may be open at once an id of its own."
            )

    def _expect(self, task: NodeTask, result: StepResult) -> None:
        """Accept answers to the calls of committed events that wait for one (GR-131)."""
        if not result.waits:
            return
        require_answerable(self._invocation.state)
        events = [one.event for one in (*result.more, result) if one.event is not None]
        for call in (call for event in events for call in event.get_function_calls()):
            if call.id in result.waits and call.id not in task.run.asked:
                task.run.asked.append(call.id)
                self._invocation.pending.expect(call, result.waits[call.id], task.scope)
        self.waits()

    async def _agent(self, task: NodeTask) -> AsyncGenerator[Event, None]:
        """Run the node's agent, or its graph."""
        child = next(one for one in self.parts.node.children if one.name == task.node.name)
        call = NodeCall(site=task.current_site(), talks=partial(self._talk, task))
        output, failed = None, None
        async with closing(self.parts.run_agent(child, task.scope, call)) as events:
            async for event in events:
                if not event.node_info.path:  # the loop has made it
                    mark(event, call.site)
                yield event
                if child.kind == "graph" or event.node_info.path != call.site.path:
                    continue
                if event.output is not None or event.is_final_response():
                    output = _output_of(event) or output
                    failed = event if event.error_code and not event.content else None
        if failed is not None:  # what a model refused is no output (B-21)
            code = failed.error_code or ""
            error = raised(
                AgentError, code, failed.error_message or f"The model ended with {code}."
            )
            error.node_path = task.site.path  # the event has told it
            raise error
        task.end = call.end or NodeEnd(output=output, branch=task.run.branch)


def _output_of(event: Event) -> NodeRef | None:
    """Return a reference to what an agent's final event gives the next node (GR-64, GR-80)."""
    if event.output is not None:
        return NodeRef(event=event.id)
    says = event.text and event.node_info.path in (event.node_info.output_for or ())
    return NodeRef(event=event.id, take="text") if says else None


def _retry_delay(task: NodeTask, error: DurableAdkError) -> float | None:
    """Return the seconds until the next attempt, or None (GR-110)."""
    retry, attempt = task.node.retry, task.run.attempt
    if retry is None:
        return None
    config = NodeRetryConfig.model_validate(retry)
    if not config.allows(_kinds(error), attempt):
        return None
    # Seeded, because each replay has to wait as long.
    return config.delay(attempt, Random(f"{task.run.event_id}:{attempt}"))  # noqa: S311


def _kinds(error: DurableAdkError) -> list[str]:
    """Return the names of the classes of an error, its own first."""
    user = error.user.classes if error.user is not None else []
    ours = (kind.__name__ for kind in type(error).__mro__)
    names = (name.rpartition(":")[2].rpartition(".")[2] for name in user)
    return [error.error_type, *names, *ours]
