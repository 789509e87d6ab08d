"""Runs the code of one node, as one attempt of its step (GR-43 to GR-50)."""

from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from durable_adk.activities.node.inputs import value_of
from durable_adk.activities.node.tool import call_tool
from durable_adk.activities.step import ActiveStep
from durable_adk.calling import contained_items, time_limit
from durable_adk.context.activity import Context
from durable_adk.conversation.call_ids import ID_PREFIX
from durable_adk.conversation.nodes.answers import given_answers
from durable_adk.conversation.nodes.events import end_of, mark, mark_output
from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    NodeTimeoutError,
    StateValueError,
    StoreUnavailableError,
    as_detail,
    wrapped,
)
from durable_adk.events.event import Event
from durable_adk.json_values import check_json, to_json_value
from durable_adk.sessions.state import check_state_entry
from durable_adk.wire.agent_stack import NodeEnd
from durable_adk.wire.manifest import Wait
from durable_adk.wire.messages import check_event
from durable_adk.wire.steps import NodeStep, StepResult


async def run_node(active: ActiveStep[NodeStep]) -> StepResult:
    """Run a node's code and return its events, or its exception as the result's `error`.

    Its code runs at least once: if the worker dies before the output is stored, another runs it
    again with the same input.

    Raises:
        StoreUnavailableError: The code raised this error and is to be retried.
    """
    await active.load()
    await active.attempt.begins()
    run = _NodeRun(active)
    try:
        await run.perform()
    except StoreUnavailableError:
        raise
    except TimeoutError as error:
        return run.failed(run.timed_out() if run.overdue else wrapped(AgentError, error))
    except DurableAdkError as error:
        return run.failed(error)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        return run.failed(wrapped(AgentError, error))
    return run.result()


_CALLS = UUID("5d3a1f0e-7d0b-4b53-8a59-3f6f4f0f2a11")


class _NodeRun:
    """One attempt."""

    def __init__(self, active: ActiveStep[NodeStep]) -> None:
        self._step, self._scope = active.step, active.scope
        self._site = active.step.named
        self._context = Context(self._scope)
        self._plugins = active.plugins
        self._app = active.deps.registry.app(active.step.key.app_name)
        self._events: list[Event] = []
        self._output: Event | None = None
        self._items: int | None = None
        self.overdue = False

    async def perform(self) -> None:
        """Run the code to its end, or do what the runtime does for the node.

        Raises:
            Exception: What the code raised.
            TimeoutError: The code took too long; then `overdue` is set.
        """
        step, scope = self._step, self._scope
        given = value_of(self._site.input, scope.events, scope.user_content, self._app.items_at)
        answers = given_answers(scope.events, self._site.answered, invocation_id=step.invocation_id)
        if step.kind == "worker" and not step.collects:
            self._items = len(self._app.items_at(self._site.path)(given))
        elif step.kind == "worker":
            self._add(Event(output=given))
        elif step.answers:
            values = list(answers.values())
            self._add(Event(output=values[0] if len(values) == 1 else answers))
        else:
            await self._run_code(given, answers)

    async def _run_code(self, given: Any, answers: dict[str, Any]) -> None:
        """Run the node's code with its input and the answers to its questions, by call id."""
        step, context = self._step, self._context
        context.node = node = self._app.node_at(step)
        context.state.schema = self._app.state_schema_at(self._site.path)
        context.resume_inputs = answers
        if step.kind == "tool":
            context.function_call_id = f"{ID_PREFIX}{uuid5(_CALLS, self._site.prefix)}"
            context.call_tool = partial(call_tool, self._plugins)
        limit = None
        try:
            async with time_limit(step.attempt_timeout) as limit:
                items = node.run(ctx=context, node_input=given)
                async with aclosing(contained_items(items)) as events:
                    async for event in events:
                        self._add(event)
        finally:
            self.overdue = limit is not None and limit.expired()
        self._end()

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
            event.output = _plain(event.output, self._site.path)
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
        changed = context.actions.state_delta or context.actions.artifact_delta
        if output is not None or changed or (context.route is not None and not self._events):
            self._add(Event(output=output))
        if context.route is not None and self._events[-1].actions.route is None:
            self._events[-1].actions.route = context.route

    def result(self) -> StepResult:
        """Return the result of code that has returned."""
        if not self._events:
            return StepResult(node=NodeEnd(branch=self._step.branch, items=self._items))
        *before, last = self._events
        last.id = self._step.event_id
        for index, event in enumerate(before):
            event.id = f"{last.id}.{index}"
        end = end_of(self._output or last)
        waits = {name: Wait() for one in self._events for name in one.long_running_tool_ids or ()}
        routes = [e.actions.route for e in self._events if e.actions.route is not None]
        end.route = routes[-1] if routes else None
        more = [StepResult(event=one) for one in before]
        return StepResult(event=last, node=end, more=more, waits=waits)

    def failed(self, error: DurableAdkError) -> StepResult:
        """Return the result of code that raised: its messages and its error, but no output."""
        event = Event(error_code=error.error_type, error_message=error.message)
        # What it has asked is not asked by an attempt that failed.
        kept = [one for one in self._events if one.output is None and not one.long_running_tool_ids]
        for dropped in (one for one in self._events if one not in kept):
            event.actions.state_delta |= dropped.actions.state_delta
            event.actions.state_read |= dropped.actions.state_read
            event.actions.artifact_delta |= dropped.actions.artifact_delta
        self._events, self._output = kept, None
        try:
            self._add(event)
        except StateValueError:  # its state is what the error is about
            self._context = Context(self._scope)
            self._add(event)
        result = self.result()
        result.node, result.error = None, as_detail(error)
        return result

    def timed_out(self) -> DurableAdkError:
        """Return the error of code that took too long (GR-113)."""
        return NodeTimeoutError(node_name=self._step.node, timeout=self._step.attempt_timeout)


def _plain(value: Any, path: str) -> Any:
    """Return an output as JSON.

    Raises:
        StateValueError: It is none; the message names the type and the place (B-33).
    """
    plain = to_json_value(value)
    check_json(plain, f"the output of {path}")
    return plain
