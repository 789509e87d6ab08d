"""The body of an LlmAgent: model, tools, model, ... until a final answer."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from google.genai import types

from durable_adk.calling.closing import closing
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.conversation.nodes.events import mark, mark_output
from durable_adk.conversation.tool_responses import closing_responses
from durable_adk.errors import from_detail
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.graph.attempt import RunAgent
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.tool_turn import ToolTurn
from durable_adk.wire.agent_stack import LlmPosition, TurnPosition
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.steps import CodeStep, ModelStep, StepResult

HANDED_OVER = "Not run, because a callback handed the conversation over to another agent."


async def run_llm(
    invocation: Invocation, node: AgentNode, scope: AgentScope, run_agent: RunAgent
) -> AsyncGenerator[Event, None]:
    """See `LlmRun.run`. The position is resumed when the generator begins, and not before."""
    async with closing(LlmRun(invocation, node, scope, run_agent).run()) as events:
        async for event in events:
            yield event


class LlmRun:
    """One run of the body of an LlmAgent."""

    def __init__(
        self, invocation: Invocation, node: AgentNode, scope: AgentScope, run_agent: RunAgent
    ) -> None:
        self._invocation = invocation
        self._run_agent = run_agent
        self._node = node
        self._scope = scope
        self._position = scope.frame.resumed(LlmPosition) or scope.frame.hold(LlmPosition())
        self._finished = False
        """Whether the agent has no further turn, whatever it has said."""

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the agent's events; the caller commits each one before it requests the next.

        Raises:
            DurableAdkError: A step failed; every event that could be committed was yielded before.
        """
        scope, position, pending = self._scope, self._position, self._invocation.pending
        while position.more or not scope.end_invocation:
            async with closing(self._turn()) as events:
                async for event in events:
                    yield event
            if position.more:
                continue  # the call has further responses
            if position.error:
                raise from_detail(position.error)
            if scope.position.transfer or self._finished:
                break
            if position.final and self._node.mode == "task":
                await self._await_reply()
                position.final = False
            elif position.final and not position.unsettled:
                break
            elif position.final:
                await pending.wait_for(sorted(position.unsettled), scope.branch)
                position.final = False
        # An agent that hands over or ends stops waiting; a late answer begins a new invocation.
        for call_id in sorted(position.unsettled):
            pending.forget(call_id)

    async def _await_reply(self) -> None:
        """Wait until the user has answered what a task agent has said (GR-173)."""
        set_awaiting = self._scope.call and self._scope.call.set_awaiting
        if set_awaiting:
            set_awaiting(True)
        await self._invocation.pending.message_to(self._scope, sorted(self._position.unsettled))
        if set_awaiting:
            set_awaiting(False)

    async def _turn(self) -> AsyncGenerator[Event, None]:
        """Yield a response of the model and those to its calls, or the remaining ones."""
        position = self._position
        position.turn = position.turn or self._answered()
        if position.turn is None and (position.more or not position.final):
            async with closing(self._next()) as events:
                async for event in events:
                    yield event
        if position.turn is not None:
            async with closing(self._answer(position.turn)) as events:
                async for event in events:
                    yield event

    def _answered(self) -> TurnPosition | None:
        """Return a turn whose request to the user was answered meanwhile."""
        position, pending = self._position, self._invocation.pending
        for turn in position.open:
            if any(pending.is_answered(name) for name in turn.requests):
                position.open.remove(turn)
                position.unsettled -= turn.interim
                turn.waiting, turn.interim = sorted(turn.interim), set()
                return turn
        return None

    async def _next(self) -> AsyncGenerator[Event, None]:
        """Yield the model's next response, and the result of the code in it."""
        position = self._position
        if position.more:
            turn = position.more.pop(0)
            turn.event.id = self._scope.branch.next_id()
        else:
            await self._invocation.continuing.safe_point(branch=self._scope.branch)
            await self._run_batch()
            # Answers that came meanwhile are in the prompt built now.
            position.unsettled -= self._invocation.pending.consume(position.unsettled)
            interim = bool(position.unsettled)
            result = await _call_model(self._invocation, self._node, self._scope, interim=interim)
            position.more, position.error = _turns(result.more), result.error
            if result.event is None:
                position.final = True
                return
            turn = _turns([result])[0]
        yield turn.event
        if turn.transfer is not None:
            self._scope.position.transfer = turn.transfer
            position.more, position.error = [], None
            for event in closing_responses([turn.event], HANDED_OVER):
                yield event
            return
        position.final = turn.event.is_final_response()
        failed = bool(turn.event.error_code) and not turn.event.content
        self._finished = failed and self._node.mode == "task"
        if self._node.runs_code and pending_code(turn.event.content) is not None:
            yield await _run_code(self._invocation, self._node, self._scope)
            position.final = False
        if turn.event.get_function_calls():
            position.turn = turn
            while turn.waits and position.more and not position.more[0].event.get_function_calls():
                later = position.more.pop(0).event  # shown before the pause
                later.id = self._scope.branch.next_id()
                yield later

    async def _run_batch(self) -> None:
        """See `Invocation.run_batch`."""
        queues = self._invocation.state.checkpoint.opened.model_task_queues or {}
        if (self._node.model or "") not in queues:  # else its calls are activities on that queue
            await self._invocation.run_batch(self._scope, self._node.name)

    async def _answer(self, turn: TurnPosition) -> AsyncGenerator[Event, None]:
        """Yield the responses to the model's calls, and a text if its answer came as a call."""
        position = self._position
        running = ToolTurn(
            self._invocation,
            self._node,
            self._scope,
            turn,
            run_agent=self._run_agent,
            single_turns=position.single_turns,
        )
        async with closing(running.run()) as events:
            async for event in events:
                yield event
        if self._invocation.state.can_wait:
            position.unsettled |= turn.interim
        if turn.requests and turn.interim:
            position.open.append(turn)
        position.turn, position.final = None, turn.final
        self._finished = turn.finished
        if turn.answer is not None and self._scope.position.transfer is None:
            yield _final_text(
                self._node, self._scope, turn.answer, interim=bool(position.unsettled)
            )
            position.final = True


def _turns(results: Sequence[StepResult]) -> list[TurnPosition]:
    return [
        TurnPosition(event=item.event, waits=item.waits, transfer=item.transfer)
        for item in results
        if item.event
    ]


async def _call_model(
    invocation: Invocation, node: AgentNode, scope: AgentScope, *, interim: bool
) -> StepResult:
    state = invocation.state
    state.require_active(scope.branch)
    state.budget.model_call(state.runtime.now())
    may_call = state.model_calls_left is None or state.model_calls_left > 0
    batches = state.runtime.batches
    if may_call and not (batches is not None and batches.is_ahead):
        # Only now, just before a model call: the invocation that receives a message has to answer
        # it (D7).
        await invocation.pending.deliver_steered()
    fields = invocation.step_fields(scope, scope.branch.next_id())
    fields["site"] = scope.site(interim=interim)
    step = ModelStep(
        **fields,
        attempt_timeout=state.checkpoint.opened.limits.model_timeout,
        model=node.model,
        calls_left=state.model_calls_left,
        max_llm_calls=state.checkpoint.request.run_config.max_llm_calls,
    )
    result = await state.runtime.perform(step)
    invocation.take(result)
    if result.model_called:
        # One logical call: neither its attempts nor a callback's answer count (TRAP-36).
        state.checkpoint.counters.model_calls += 1
    else:
        state.budget.no_model_call()
    scope.end_invocation = scope.end_invocation or result.end_invocation
    return result


async def _run_code(invocation: Invocation, node: AgentNode, scope: AgentScope) -> Event:
    """Return the result of the code at the end of the model's last event (FLW-90)."""
    limits = invocation.state.checkpoint.opened.limits
    step = CodeStep(
        **invocation.step_fields(scope, scope.branch.next_id()),
        attempt_timeout=node.code_timeout or limits.tool_timeout,
    )
    result = await invocation.state.runtime.perform(step)
    invocation.take(result)
    scope.end_invocation = scope.end_invocation or result.end_invocation
    return result.event or Event()


def _final_text(node: AgentNode, scope: AgentScope, value: Any, *, interim: bool) -> Event:
    """Return the agent's final text, for an answer that came as a call of `set_model_response`.

    The call's response is already committed, so a repeated run of the loop makes the same text of
    it.
    """
    text = types.Part(text=json.dumps(value, ensure_ascii=False))
    saved = {node.output_key: value} if node.output_key else {}
    event = Event(
        id=scope.branch.next_id(),
        author=scope.ctx.agent_name,
        branch=scope.ctx.branch,
        content=types.Content(role="model", parts=[text]),
        actions=EventActions(state_delta=saved),
    )
    if scope.call is not None:
        event.output = value
        mark(event, scope.call.site)
        if not (interim or scope.hooks_follow):
            mark_output(event, scope.call.site, message=False)
    return event
