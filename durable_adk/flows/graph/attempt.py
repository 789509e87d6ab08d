"""One attempt of a run of a node: its code, what it asks, or its agent."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from durable_adk.calling.closing import closing
from durable_adk.conversation.nodes.events import is_answer_text, mark, mark_output
from durable_adk.errors import AgentError, DurableAdkError, from_detail, raised
from durable_adk.events.event import Event
from durable_adk.flows.agent_scope import AgentScope, NodeCall
from durable_adk.flows.graph.task import NodeTask
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.pending_calls import require_answerable
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.steps import NodeStep, StepResult

MAX_CALLER_SECONDS = 86_400.0
"""Seconds that the code of a node may take that calls other nodes, unless it has a timeout of its
own. Its heartbeats show that it is alive."""
RunAgent = Callable[[AgentNode, AgentScope, NodeCall], AsyncGenerator[Event, None]]
"""Runs an agent, or a graph, as a node of the graph of the scope."""


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """What runs of nodes work with."""

    invocation: Invocation
    node: AgentNode
    """The graph."""
    run_agent: RunAgent
    run_worker: "Callable[[NodeAttempt], AsyncGenerator[Event, None]]"


class NodeAttempt:
    """Makes an attempt."""

    def __init__(
        self,
        parts: NodeParts,
        task: NodeTask,
        waits: Callable[[], None],
        set_awaiting: Callable[[bool], None],
    ) -> None:
        """Create it.

        Args:
            parts: What it works with.
            task: The run.
            waits: Called when the run waits for an answer, to launch what may run meanwhile.
            set_awaiting: Called when its task agent begins, and ceases, to wait for a message.
        """
        self.parts = parts
        self.task = task
        self._waits, self._set_awaiting = waits, set_awaiting
        self._invocation = parts.invocation

    def run(self) -> AsyncGenerator[Event, None]:
        """Yield the events that the loop has to commit, and those of agents."""
        match self.task.node.kind:
            case "agent":
                return self._agent()
            case "worker":
                return self.parts.run_worker(self)
            case _:
                return self._code()

    async def _code(self) -> AsyncGenerator[Event, None]:
        """Run the node's code as an activity, and wait for what it asks (GR-133, GR-134)."""
        run, node = self.task.run, self.task.node
        while True:
            if run.asked:
                await self._wait()
                self.stop_awaiting_message()
                await self._invocation.continuing.safe_point(branch=self.task.scope.branch)
            answers = bool(run.answered) and not node.reruns
            async with closing(self.step(answers=answers)) as events:
                async for event in events:
                    yield event
            if not run.asked:
                return

    def stop_awaiting_message(self) -> None:
        """Let the graph start further runs: no task agent of the run waits for a message."""
        if self.task.run.awaits_message:
            self._set_awaiting(False)

    async def _wait(self) -> None:
        """Wait for answers: for all of them, or if the node runs again for any."""
        run, pending = self.task.run, self._invocation.pending
        while run.asked:
            name = await pending.answer_to(run.asked, self.task.scope.branch)
            found = {name, *pending.consume(run.asked)}
            run.resumed += [one for one in run.asked if one in found]
            own = [one for one in run.asked if one not in run.below]
            run.answered += [one for one in own if one in found]
            run.asked = [one for one in run.asked if one not in found]
            if self.task.node.reruns:
                break
        for name in run.asked:  # the code makes those again that it still needs (GR-134)
            pending.forget(name)
        run.asked.clear()
        run.below.clear()

    async def step(
        self, *, answers: bool = False, collected: NodeRef | None = None
    ) -> AsyncGenerator[Event, None]:
        """Run the node's code, or what the runtime does for the node, as an activity.

        Args:
            answers: See `NodeStep.answers`.
            collected: The outputs of a worker's items; None: they have not run.
        """
        invocation, task = self._invocation, self.task
        step = self._node_step(answers=answers, collected=collected)
        result = await self._perform(step)
        invocation.take(result)
        task.run.resumed.clear()
        if result.dynamic is not None:
            invocation.called(result.dynamic)
            task.run.journal = result.dynamic.journal
        self._check_questions(result)
        for message in result.more:
            invocation.take(message)
            if message.event is not None:
                yield message.event
        if result.event is not None:
            yield result.event
        elif result.seq is not None:
            invocation.committed_by_step(step.event_id, result.seq)
        self._expect(result)
        if result.error is not None:
            error = from_detail(result.error)
            failed = result.dynamic and result.dynamic.failed
            error.node_path = failed or task.site.path  # the event is committed
            raise error
        task.end = result.node

    def _node_step(self, *, answers: bool, collected: NodeRef | None) -> NodeStep:
        invocation, task = self._invocation, self.task
        scope, node = task.scope, task.node
        fields = invocation.step_fields(scope, scope.branch.next_id())
        site = task.current_site()
        if collected is not None:
            site.input = collected
        fields["site"] = site
        caller = invocation.caller(task.run) if node.calls else None
        limits = invocation.state.checkpoint.opened.limits
        longest = limits.tool_timeout if caller is None else MAX_CALLER_SECONDS
        return NodeStep(
            **fields,
            attempt_timeout=node.timeout or longest,
            caller=caller,
            node=node.name,
            task_queue=node.task_queue,
            contract=node.contract,
            kind=node.kind,
            answers=answers,
            collects=collected is not None,
            returns_event=True,
        )

    async def _perform(self, step: NodeStep) -> StepResult:
        """Perform a step, unless a batch has done so."""
        outcome, self.task.outcome = self.task.outcome, None
        if isinstance(outcome, DurableAdkError):
            raise outcome
        return outcome or await self._invocation.state.runtime.perform(step)

    def _check_questions(self, result: StepResult) -> None:
        """Check the ids of a run's questions before these are stored (B-18).

        Raises:
            AgentError: Another run waits for an answer to the same id.
        """
        open_calls = [] if result.dynamic is None else result.dynamic.open_calls
        ids = [*result.waits, *(call.call_id for call in open_calls)]
        taken = self._invocation.pending.reserve(ids)
        if taken is not None:
            raise AgentError(
                f"{self.task.site.path} asks with the id {taken!r}, for which another node waits "
                "already; give each RequestInput that may be open at once an id of its own."
            )

    def _expect(self, result: StepResult) -> None:
        """Accept answers to the calls of committed events that wait for one (GR-131)."""
        task, pending = self.task, self._invocation.pending
        dynamic = result.dynamic
        below = [] if dynamic is None else [*dynamic.open_calls, *dynamic.open_tasks]
        if not (result.waits or below):
            return
        require_answerable(self._invocation.state)
        for one in below:
            name = pending.expect_below(one, task.scope.branch.prefix)
            task.run.asked.append(name)
            task.run.below.append(name)
        if dynamic is not None and dynamic.open_tasks:
            self._set_awaiting(True)
        events = [one.event for one in (*result.more, result) if one.event is not None]
        for call in (call for event in events for call in event.get_function_calls()):
            if call.id in result.waits and call.id not in task.run.asked:
                task.run.asked.append(call.id)
                pending.expect(call, result.waits[call.id], task.scope)
        self._waits()

    async def _agent(self) -> AsyncGenerator[Event, None]:
        """Run the node's agent, or its graph."""
        task = self.task
        child = next(one for one in self.parts.node.children if one.name == task.node.name)
        call = NodeCall(site=task.current_site(), set_awaiting=self._set_awaiting)
        if _chats(child):
            call.site.output_for = []
        final, failed = None, None
        async with closing(self.parts.run_agent(child, task.scope, call)) as events:
            async for event in events:
                if not event.node_info.path:  # the loop has made it
                    mark(event, call.site)
                yield event
                if child.kind == "graph" or event.node_info.path != call.site.path:
                    continue
                if event.output is not None or event.is_final_response():
                    final = event if _gives_output(event, child) else final
                    failed = event if event.error_code and not event.content else None
        if failed is not None:  # what a model refused is no output (B-21)
            code = failed.error_code or ""
            error = raised(
                AgentError, code, failed.error_message or f"The model ended with {code}."
            )
            error.node_path = task.site.path  # the event reports it
            raise error
        if final is not None and task.site.path not in (final.node_info.output_for or ()):
            final = Event(
                id=task.scope.branch.next_id(),
                author=final.author,
                branch=final.branch,
                output=final.text if final.output is None else final.output,
            )
            mark_output(final, call.site, message=False)
            yield final
        task.end = call.end or NodeEnd(
            output=None if final is None else _reference(final), branch=task.run.branch
        )


def _gives_output(event: Event, agent: AgentNode) -> bool:
    """Return whether an agent's final event has what the next node is given (GR-64, GR-80)."""
    if _chats(agent):
        return False
    speaks = agent.kind == "llm" and agent.mode != "task"
    return event.output is not None or (speaks and is_answer_text(event))


def _chats(agent: AgentNode) -> bool:
    """Return whether an agent, which is a node, answers the user and gives no output (GR-178)."""
    return agent.kind == "llm" and agent.mode is None


def _reference(event: Event) -> NodeRef:
    return NodeRef(event=event.id, take="text" if event.output is None else "output")
