"""Runs the code of one node, as one attempt of its step (GR-43 to GR-50)."""

from contextlib import aclosing, suppress
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from durable_adk.activities.node.dynamic import MakeEffects, NodeCalls
from durable_adk.activities.node.tool_hooks import call_with_hooks
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.tool.contract import ToolNotStartedError
from durable_adk.calling import contained_items, time_limit
from durable_adk.context.activity import Context
from durable_adk.conversation.call_ids import ID_PREFIX
from durable_adk.conversation.nodes.answers import given_answers
from durable_adk.conversation.nodes.events import end_of, event_before, mark, mark_output, questions
from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    NodeTimeoutError,
    PayloadTooLargeError,
    StateValueError,
    StoreUnavailableError,
    as_detail,
    wrapped,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.tool_node import ToolNode
from durable_adk.json_values import check_json, to_json_value
from durable_adk.sessions.state import check_state_entry
from durable_adk.wire.graph.dynamic import DynamicEnd
from durable_adk.wire.graph.node_run import NodeEnd
from durable_adk.wire.manifest import Wait
from durable_adk.wire.messages import check_event
from durable_adk.wire.steps import NodeStep, StepResult


async def run_node(active: ActiveStep[NodeStep], effects: MakeEffects) -> StepResult:
    """Run a node's code and return its events, or its exception as the result's `error`.

    Its code runs at least once: if the worker dies before the output is stored, another runs it
    again with the same input.

    Args:
        active: The step.
        effects: Performs the effects of nodes that the code calls.

    Raises:
        StoreUnavailableError: The code raised this error and is to be retried.
        LeaseLostError: The invocation has ended.
    """
    await active.load()
    await active.attempt.begins()
    run = _NodeRun(active, effects)
    error: DurableAdkError | None = None
    try:
        await run.perform()
    except StoreUnavailableError:
        raise
    except ToolNotStartedError as waits:
        raise waits.error from waits
    except TimeoutError as late:
        error = run.timed_out() if run.overdue else wrapped(AgentError, late)
    except DurableAdkError as ours:
        error = ours
    except Exception as users:  # noqa: BLE001 - user code may raise anything
        error = wrapped(AgentError, users)
    return await run.end(error)


_CALLS = UUID("5d3a1f0e-7d0b-4b53-8a59-3f6f4f0f2a11")


class _NodeRun:
    """One attempt."""

    def __init__(self, active: ActiveStep[NodeStep], effects: MakeEffects) -> None:
        self._active, self._effects = active, effects
        self._calls: NodeCalls | None = None
        self._sent: list[Event] = []
        """Those of its events that are stored already."""
        self._step, self._scope = active.step, active.scope
        self._site = active.step.named
        self._context = Context(self._scope)
        self._plugins = active.plugins
        self._app = active.deps.registry.app(active.step.key.app_name)
        self._events: list[Event] = []
        self._output: Event | None = None
        self._told_route: Any = None
        """The last route that the code has yielded."""
        self._ended = NodeEnd(branch=active.step.branch)
        """How it ends without an event."""
        self._wait: Wait | None = None
        """How long the tool that is the node may wait for its response."""
        self.overdue = False

    async def perform(self) -> None:
        """Run the code to its end, or do what the runtime does for the node.

        Raises:
            Exception: What the code raised.
            TimeoutError: The code took too long; then `overdue` is set.
        """
        step, scope = self._step, self._scope
        given = self._active.deps.node_values(step, scope).of(self._site.input)
        answers = given_answers(scope.events, self._site.answered, invocation_id=step.invocation_id)
        if step.kind == "worker" and not step.collects:
            self._ended.items = len(self._app.items_at(self._site.path)(given))
        elif step.kind == "worker":
            self._add_list(given)
        elif step.answers:
            values = list(answers.values())
            self._add(Event(output=values[0] if len(values) == 1 else answers))
        else:
            await self._run_code(given, answers)

    def _add_list(self, outputs: list[Any]) -> None:
        """Add the event of a worker's output.

        A list that no event can hold has none: what follows reads the outputs of the items.

        Raises:
            PayloadTooLargeError: It is such a list, and the output of a graph, too.
        """
        try:
            self._add(Event(output=outputs))
        except PayloadTooLargeError:
            if self._site.output_for != [self._site.path]:
                raise
            self._ended = NodeEnd(output=self._site.input, branch=self._step.branch)

    async def _run_code(self, given: Any, answers: dict[str, Any]) -> None:
        """Run the node's code with its input and the answers to its questions, by call id."""
        step, context = self._step, self._context
        context.node = node = self._app.node_at(step)
        context.state.schema = self._app.state_schema_at(self._site.path)
        if isinstance(node, ToolNode):
            call = partial(call_with_hooks, self._active)
            node = node.model_copy(update={"call_tool": call})
            tool = node.tool
            self._wait = Wait(deadline=tool.deadline, on_deadline=tool.on_deadline)
        context.resume_inputs = answers
        if step.kind == "tool":
            context.function_call_id = f"{ID_PREFIX}{uuid5(_CALLS, self._site.prefix)}"
        if step.caller is not None:
            self._calls = NodeCalls(
                self._active,
                step.caller,
                self._effects,
                context,
                messages=self._messages,
                yielded=self._events,
            )
            await self._calls.restore()
            context.call_node = self._calls.call
        limit = None
        try:
            async with time_limit(step.attempt_timeout) as limit:
                failpoint("node.before_run")
                await self._iterate(node, given)
            failpoint("node.after_run")
        finally:
            self.overdue = limit is not None and limit.expired()
            if self._calls is not None:
                await self._calls.close()
        if self._calls is None or not self._calls.waiting:
            self._end()

    async def _iterate(self, node: BaseNode, given: Any) -> None:
        calls, items = self._calls, node.run(ctx=self._context, node_input=given)
        try:
            async with aclosing(contained_items(items)) as events:
                async for event in events:
                    self._note(event, node)
                    self._add(event)
            if calls is not None:
                await calls.settle()
        except Exception:
            # Whatever the code makes of it, it runs again after the answer that a node waits for.
            if calls is None or not calls.is_interrupted:
                raise
            await calls.settle()

    def _note(self, event: Event, node: BaseNode) -> None:
        """Let the context know what the code has yielded; see `Context.note`."""
        if event.author not in ("", node.name):  # an agent's that the code has run (GR-75)
            event.actions.route = None
        self._context.note(event)
        if event.actions.route is not None:
            self._told_route = event.actions.route

    def _add(self, event: Event) -> None:
        step = self._step
        delta = self._context.actions
        self._context.state.collect_delta()
        event.author, event.invocation_id = step.agent, step.invocation_id
        event.branch = event.branch or step.branch
        for key, value in event.actions.state_delta.items():
            check_state_entry(self._context.state.schema, key, value)
        event.actions.state_delta = {**delta.state_delta, **event.actions.state_delta}
        event.actions.state_read = {**delta.state_read, **event.actions.state_read}
        event.actions.artifact_delta = {**delta.artifact_delta, **event.actions.artifact_delta}
        self._context.state.committed()
        for changes in (delta.state_delta, delta.state_read, delta.artifact_delta):
            changes.clear()
        mark(event, self._site)
        if event.output is not None:
            if self._output is not None:
                raise ValueError("Output already set. A node can produce at most one output.")
            output = self._app.output_of(event.output, self._site.output_for)
            event.output = _plain(output, self._site.path)
            mark_output(event, self._site, message=False)
            self._output = event
        check_json(event.actions.state_delta, "state_delta")
        check_event(event, f"An event of node {step.node}")
        self._events.append(event)

    def _end(self) -> None:
        """Add an event for what the code has set or changed after its last one (GR-84, GR-93)."""
        context = self._context
        context.state.collect_delta()
        output = None if self._output is not None else context.output
        route = None if context.route == self._told_route else context.route
        changed = context.actions.state_delta or context.actions.artifact_delta
        has_place = self._events and self._events[-1].actions.route is None
        if output is not None or changed or (route is not None and not has_place):
            self._add(Event(output=output))
        if route is not None:
            self._events[-1].actions.route = route

    def _messages(self) -> list[Event]:
        """Take the events that are stored before a node that the code calls begins."""
        found: list[Event] = []
        while self._events and _is_message(self._events[0]):
            event = self._events.pop(0)
            event.id = event_before(self._step.event_id, len(self._sent))
            self._sent.append(event)
            found.append(event)
        return found

    async def end(self, error: DurableAdkError | None) -> StepResult:
        """Return the result of code that has returned, or has raised an error.

        Raises:
            StoreUnavailableError: A node that the code has called needs the store.
        """
        calls = self._calls
        if calls is None:
            return self._result() if error is None else self._failed(error)
        if calls.fatal is not None:
            if isinstance(calls.fatal, StoreUnavailableError):
                raise calls.fatal
            self._events.clear()
            result = StepResult(error=as_detail(calls.fatal))
            result.dynamic = await calls.outcome(again=False, failed="")
            return result
        if error is not None:
            known = calls.failure_of(error)
            result = self._failed(error) if known is None else self._failed_by_call(known)
            path = self._site.path if known is None else known.path
            result.dynamic = await calls.outcome(again=True, failed=path)
            return result
        if calls.waiting or calls.delegate is not None:
            self._drop_output()
        result = self._result()
        if calls.waiting:
            result.node = None
        elif calls.delegate is not None and result.node is not None:
            result.node.output = calls.output_of_delegate()
        result.dynamic = await calls.outcome(again=bool(calls.waiting or result.waits))
        return result

    def _drop_output(self) -> None:
        """Drop the output: the code runs again, or another node's output is its own (GR-157)."""
        event, self._output = self._output, None
        if event is None:
            return
        event.output = None
        event.node_info = event.node_info.model_copy(update={"output_for": None})
        actions = event.actions
        if not (event.content or actions.state_delta or actions.artifact_delta or actions.route):
            self._events.remove(event)

    def _failed_by_call(self, known: DynamicEnd) -> StepResult:
        """Return the result of code that raised the error of a node, which its event reports."""
        self._events[:] = [one for one in self._events if _is_message(one)]
        self._output = None
        self._context.drop_output()
        with suppress(StateValueError):
            self._end()
        result = self._result()
        result.node, result.error = None, known.error
        return result

    def _result(self) -> StepResult:
        if not self._events:
            return StepResult(node=end_of(self._sent) if self._sent else self._ended)
        *before, last = self._events
        last.id = self._step.event_id
        for index, event in enumerate(before, len(self._sent)):
            event.id = event_before(last.id, index)
        more = [StepResult(event=one) for one in before]
        waits = questions(self._events)
        name = self._context.function_call_id
        if name in waits and self._wait is not None:  # of the tool itself
            waits[name] = self._wait
        end = end_of([*self._sent, *self._events])
        return StepResult(event=last, node=end, more=more, waits=waits)

    def _failed(self, error: DurableAdkError) -> StepResult:
        """Return the result of code that raised: its messages and its error, but no output."""
        event = Event(error_code=error.error_type, error_message=error.message)
        # What it has asked is not asked by an attempt that failed.
        kept = [one for one in self._events if one.output is None and not one.long_running_tool_ids]
        for dropped in (one for one in self._events if one not in kept):
            event.actions.state_delta |= dropped.actions.state_delta
            event.actions.state_read |= dropped.actions.state_read
            event.actions.artifact_delta |= dropped.actions.artifact_delta
        self._events[:], self._output = kept, None
        try:
            self._add(event)
        except StateValueError:  # its state is what the error is about
            self._context = Context(self._scope)
            self._add(event)
        result = self._result()
        result.node, result.error = None, as_detail(error)
        return result

    def timed_out(self) -> DurableAdkError:
        """Return the error of code that took too long (GR-113)."""
        return NodeTimeoutError(node_name=self._step.node, timeout=self._step.attempt_timeout)


def _is_message(event: Event) -> bool:
    return event.output is None and not event.long_running_tool_ids


def _plain(value: Any, path: str) -> Any:
    """Return an output as JSON.

    Raises:
        StateValueError: It is none; the message names the type and the place (B-33).
    """
    plain = to_json_value(value)
    check_json(plain, f"the output of {path}")
    return plain
