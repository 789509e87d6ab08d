"""The body of a graph: its nodes run side by side, in the order that `GraphSchedule` decides.

Each run of a node is a task with a branch of its own. The events that a step leaves to the loop,
and those of agents, pass through one queue; the task waits until its event is committed (RUN-3).
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from durable_adk.calling.closing import abandoned, closing, uninterrupted
from durable_adk.errors import DurableAdkError, from_detail
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, Branch, CommitBy, NodeCall
from durable_adk.flows.graph_schedule import GraphSchedule
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.tool_turn import require_answerable
from durable_adk.wire.graph import GraphPosition, NodeEnd, NodeRef, NodeRun, NodeSite
from durable_adk.wire.manifest import AgentNode, GraphNode, GraphRecord
from durable_adk.wire.steps import NodeStep, StepResult

RunAgent = Callable[[AgentNode, AgentScope, NodeCall], AsyncGenerator[Event, None]]
"""Runs an agent, or a graph, as a node of the graph of the scope."""


async def run_graph(
    invocation: Invocation, node: AgentNode, scope: AgentScope, run_agent: RunAgent
) -> AsyncGenerator[Event, None]:
    """Run a graph until nothing runs and no node is due (GR-74)."""
    async with closing(_GraphRun(invocation, node, scope, run_agent).run()) as events:
        async for event in events:
            yield event


@dataclass(eq=False)
class _Flight:
    """One run of a node."""

    node: GraphNode
    run: NodeRun
    path: str
    scope: AgentScope
    """The graph's scope, on the branch of the run."""
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    end: NodeEnd | None = None

    def begin_again(self) -> None:
        """Begin another attempt: nothing of the last one is the agent's any more."""
        self.scope.frame.clear()
        self.scope.branch.leave()
        self.scope.branch = Branch(_prefix(self.run), self.scope.branch.branches)


def _prefix(run: NodeRun) -> str:
    """Return the prefix of the ids of an attempt's events."""
    return run.event_id if run.attempt == 1 else f"{run.event_id}~{run.attempt}"


class _GraphRun:
    """One run of a graph."""

    def __init__(
        self, invocation: Invocation, node: AgentNode, scope: AgentScope, run_agent: RunAgent
    ) -> None:
        self._invocation = invocation
        self._node = node
        self._scope = scope
        self._run_agent = run_agent
        call = scope.call
        self._site = call.site if call else NodeSite(
            path=f"{node.name}@1",
            prefix=scope.branch.prefix,
            input=NodeRef.user_message(),
            output_for=[f"{node.name}@1"],
        )
        position = scope.frame.resumed(GraphPosition)
        self._resumed = position is not None
        self._position = position or scope.frame.hold(
            GraphPosition(path=self._site.path, event_id=scope.branch.next_id())
        )
        self._schedule = GraphSchedule(node.graph or GraphRecord(), self._position)
        self._flights: dict[str, _Flight] = {}
        self._busy = True
        self._news = asyncio.Queue[tuple[_Flight, Event | BaseException | None]]()

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the events that the loop has to commit, and those of agents."""
        if not self._resumed:
            self._schedule.begin(self._site.input, self._scope.ctx.branch)
        loop = asyncio.get_running_loop()
        try:
            for name, run in list(self._position.runs.items()):
                self._launch(name, run)
            self._start_nodes()
            self._hold(not self._flights)
            while self._flights:
                flight, item = await self._news.get()
                if isinstance(item, Event):
                    yield item
                    flight.committed.set()
                elif item is not None:
                    raise item
                else:
                    self._land(flight)
        finally:
            if not abandoned(loop):
                self._hold(True)
                await uninterrupted(self._stop())
        if self._scope.call is not None:
            end = NodeEnd(output=self._position.output, branch=self._scope.ctx.branch)
            self._scope.call.end = end

    def _hold(self, busy: bool) -> None:
        """Count the graph itself as a busy branch, or not, while its nodes are instead."""
        if busy is not self._busy:
            self._busy = busy
            self._scope.branch.branches.busy += 1 if busy else -1

    def _start_nodes(self) -> None:
        while (name := self._schedule.next()) is not None:
            self._launch(name, self._schedule.start(name))

    def _launch(self, name: str, run: NodeRun) -> None:
        scope, node = self._scope, self._schedule.node(name)
        # The graph's one output must not be stored before the loop knows that it is the only one.
        decided = self._schedule.is_terminal(name) and len(self._schedule.terminals) > 1
        flight = _Flight(
            node=node,
            run=run,
            path=self._schedule.path(name),
            scope=replace(
                scope,
                ctx=replace(scope.ctx, branch=run.branch),
                branch=Branch(_prefix(run), scope.branch.branches),
                frame=scope.frame.enter(name),
                commit_by=CommitBy.LOOP if decided else scope.commit_by,
                call=None,
            ),
        )
        self._flights[name] = flight
        scope.branch.branches.busy += 1
        flight.task = asyncio.ensure_future(self._fly(flight))

    def _land(self, flight: _Flight) -> None:
        """Record the end of a run, and start what it lets start."""
        name = flight.node.name
        del self._flights[name]
        end = flight.end or NodeEnd(branch=flight.run.branch)
        self._schedule.ended(name, end)
        self._scope.frame.leave(name)
        self._start_nodes()
        self._hold(not self._flights)  # before the run leaves: a pause begins when none is busy
        self._leave(flight)

    def _leave(self, flight: _Flight) -> None:
        flight.scope.branch.leave()
        self._invocation.pending.join()

    async def _stop(self) -> None:
        """Cancel the nodes that run, and wait for their ends.

        A step that is about to finish does so and swallows the cancellation. Because the branch is
        marked as stopped, the next step does not begin.
        """
        flights, self._flights = list(self._flights.values()), {}
        tasks = [flight.task for flight in flights if flight.task is not None]
        for flight in flights:
            flight.scope.branch.stop()
            flight.committed.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for flight in flights:
            self._leave(flight)

    async def _fly(self, flight: _Flight) -> None:
        """Forward the events of a run, each after the one before is committed."""
        try:
            async with closing(self._attempts(flight)) as events:
                async for event in events:
                    if flight.scope.branch.stopped:
                        return
                    flight.committed.clear()
                    self._news.put_nowait((flight, event))
                    await flight.committed.wait()
        except BaseException as error:  # noqa: BLE001 - the graph's own run raises it again
            self._news.put_nowait((flight, error))
        else:
            self._news.put_nowait((flight, None))

    # ----- one run of a node

    async def _attempts(self, flight: _Flight) -> AsyncGenerator[Event, None]:
        """Yield the events of a run's attempts, until one succeeds."""
        run, runtime = flight.run, self._invocation.state.runtime
        while True:
            if run.again_at is not None:
                await asyncio.sleep(max(run.again_at - runtime.now(), 0.0))
                run.again_at = None
            await self._invocation.continuing.safe_point()
            try:
                async with closing(self._attempt(flight)) as events:
                    async for event in events:
                        yield event
            except DurableAdkError as error:
                delay = _retry_delay(flight, error)
                if delay is None:
                    raise
                run.attempt, run.again_at = run.attempt + 1, runtime.now() + delay
                flight.begin_again()
            else:
                return

    def _attempt(self, flight: _Flight) -> AsyncGenerator[Event, None]:
        return self._agent(flight) if flight.node.kind == "agent" else self._step(flight)

    def _site_of(self, flight: _Flight) -> NodeSite:
        ends = self._schedule.is_terminal(flight.node.name)
        return NodeSite(
            path=flight.path,
            prefix=flight.scope.branch.prefix,
            input=flight.run.input,
            attempt=flight.run.attempt,
            output_for=[flight.path, *(self._site.output_for if ends else [])],
            scope=self._site.scope,
            answered=list(flight.run.answered),
        )

    async def _step(self, flight: _Flight) -> AsyncGenerator[Event, None]:
        """Run the node's code as an activity, and wait for what it asks (GR-133, GR-134)."""
        run, node = flight.run, flight.node
        while True:
            if run.asked:
                await self._wait(flight)
                await self._invocation.continuing.safe_point()
            answers = bool(run.answered) and not node.reruns
            async with closing(self._pass(flight, answers=answers)) as events:
                async for event in events:
                    yield event
            if not run.asked:
                return

    async def _wait(self, flight: _Flight) -> None:
        """Wait for answers: for all of them, or if the node runs again for any."""
        run, pending = flight.run, self._invocation.pending
        while run.asked:
            name = await pending.answer_to(run.asked)
            run.asked.remove(name)
            run.answered.append(name)
            if flight.node.reruns:
                break
        for name in run.asked:  # the code makes those again that it still needs (GR-134)
            pending.forget(name)
        run.asked.clear()

    async def _pass(self, flight: _Flight, *, answers: bool) -> AsyncGenerator[Event, None]:
        invocation, scope, node = self._invocation, flight.scope, flight.node
        fields = invocation.step_fields(scope, scope.branch.next_id())
        step = NodeStep(
            **fields | {"site": self._site_of(flight)},
            attempt_timeout=node.timeout or invocation.state.checkpoint.opened.limits.tool_timeout,
            graph=[part.partition("@")[0] for part in self._site.path.split("/")],
            node=node.name,
            kind=node.kind,
            answers=answers,
            returns_event=invocation.state.reads_state,
        )
        result = await invocation.state.runtime.perform(step)
        invocation.take(result)
        for message in result.more:
            if message.event is not None:
                yield message.event
        if result.event is not None:
            if result.seq is None and result.node is not None and result.node.output is not None:
                self._schedule.claim_output(node.name)
            yield result.event
            self._expect(flight, result)
        elif result.seq is not None:
            invocation.committed_by_step(step.event_id, result.seq)
        if result.error is not None:
            raise from_detail(result.error)
        flight.end = result.node

    def _expect(self, flight: _Flight, result: StepResult) -> None:
        """Accept answers to the calls of committed events that wait for one (GR-131)."""
        if not result.waits:
            return
        require_answerable(self._invocation.state)
        events = [one.event for one in (*result.more, result) if one.event is not None]
        for call in (call for event in events for call in event.get_function_calls()):
            if call.id in result.waits and call.id not in flight.run.asked:
                flight.run.asked.append(call.id)
                self._invocation.pending.expect(call, result.waits[call.id], flight.scope)

    async def _agent(self, flight: _Flight) -> AsyncGenerator[Event, None]:
        """Run the node's agent, or its graph."""
        child = next(one for one in self._node.children if one.name == flight.node.name)
        call = NodeCall(site=self._site_of(flight))
        output: NodeRef | None = None
        async with closing(self._run_agent(child, flight.scope, call)) as events:
            async for event in events:
                yield event
                if child.kind != "graph" and event.is_final_response() and not event.partial:
                    output = _output_of(event) or output
        flight.end = call.end or NodeEnd(output=output, branch=flight.run.branch)


def _output_of(event: Event) -> NodeRef | None:
    """Return a reference to what an agent's final event gives the next node (GR-80)."""
    if event.output is not None:
        return NodeRef(event=event.id)
    return NodeRef(event=event.id, take="text") if event.text else None


def _retry_delay(flight: _Flight, error: DurableAdkError) -> float | None:
    """Return the seconds until the next attempt, or None (GR-110)."""
    retry, attempt = flight.node.retry, flight.run.attempt
    if retry is None or not retry.allows(_kinds(error), attempt):
        return None
    # Not drawn: each replay has to wait as long.
    digest = hashlib.sha256(f"{flight.run.event_id}:{attempt}".encode()).digest()
    return retry.delay(attempt, int.from_bytes(digest[:4]) / 2**32)


def _kinds(error: DurableAdkError) -> list[str]:
    """Return the names of the classes of an error, its own first."""
    user = error.user.classes if error.user is not None else []
    ours = (kind.__name__ for kind in type(error).__mro__)
    return [error.error_type, *(name.rpartition(".")[2] for name in user), *ours]
