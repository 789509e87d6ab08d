"""The body of an LlmAgent: model, tools, model, ... until a final answer (semantics 9)."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types

from durable_adk.closing import closing
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.context.loop import InvocationContext
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.tool_turn import ToolTurn
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.steps import CodeStep, ModelStep, StepResult


async def run_llm(
    invocation: Invocation, node: AgentNode, ctx: InvocationContext
) -> AsyncGenerator[Event, None]:
    """See `LlmRun.run`; where it is, is looked up when it is begun, and not before."""
    async with closing(LlmRun(invocation, node, ctx).run()) as events:
        async for event in events:
            yield event


class LlmRun:
    """One run of the body of an LlmAgent."""

    def __init__(self, invocation: Invocation, node: AgentNode, ctx: InvocationContext) -> None:
        self._invocation = invocation
        self._node = node
        self._ctx = ctx
        told = ctx.frame.take()
        self._unsettled: set[str] = set(told.get("unsettled", ()))
        """Long-running calls that have an interim result: the model may speak, but not end."""
        self._final: bool = told.get("final", False)
        """Whether nothing but `_unsettled` keeps the run from its end."""
        turn = told.get("turn")
        self._turn = ToolTurn.resumed(invocation, node, ctx, turn) if turn else None
        """The calls that are not answered yet."""
        ctx.frame.tell = self._tell

    def _tell(self) -> dict[str, Any]:
        turn = self._turn.told() if self._turn else None
        return {"unsettled": sorted(self._unsettled), "final": self._final, "turn": turn}

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the agent's events; after each the caller commits it before it asks for the next.

        Raises:
            DurableAdkError: A step failed; what could be committed has been yielded before.
        """
        ctx, pauses = self._ctx, self._invocation.pauses
        while not ctx.end_invocation:
            if self._turn is None and not self._final:
                await self._invocation.rolling.safe_point()
                async with closing(self._ask()) as events:
                    async for event in events:
                        yield event
            if self._turn is not None:
                async with closing(self._answer(self._turn)) as events:
                    async for event in events:
                        yield event
            if ctx.transfer is not None or (self._final and not self._unsettled):
                break
            if self._final:
                self._unsettled.discard(await pauses.answer_to(sorted(self._unsettled)))
                self._final = False
        # Who hands over, or is ended, waits no longer; a late answer starts another invocation.
        for call_id in sorted(self._unsettled):
            pauses.forget(call_id)

    async def _ask(self) -> AsyncGenerator[Event, None]:
        """One answer of the model, and the result of the code in it."""
        # What was answered meanwhile is in the prompt that is built now.
        self._unsettled -= self._invocation.pauses.consume(self._unsettled)
        result = await _call_model(self._invocation, self._node, self._ctx)
        if result.event is None:
            self._final = True
            return
        yield result.event
        self._final = result.event.is_final_response()
        if self._node.runs_code and pending_code(result.event.content) is not None:
            yield await _run_code(self._invocation, self._node, self._ctx)
            self._final = False
        if result.event.get_function_calls():
            self._turn = ToolTurn(self._invocation, self._node, self._ctx, result)

    async def _answer(self, turn: ToolTurn) -> AsyncGenerator[Event, None]:
        """The responses to the model's calls; a text, if its answer came as a call."""
        async with closing(turn.run()) as events:
            async for event in events:
                yield event
        self._unsettled |= turn.interim
        self._turn, self._final = None, turn.final
        if turn.answer is not None and self._ctx.transfer is None:
            yield _final_text(self._node, self._ctx, turn.answer)
            self._final = True


async def _call_model(
    invocation: Invocation, node: AgentNode, ctx: InvocationContext
) -> StepResult:
    invocation.require_wanted(ctx)
    invocation.spending.model_call(invocation.runtime.now())
    if invocation.calls_left is None or invocation.calls_left > 0:
        # Only now that a model will be asked: who hears a message has to answer it (D7).
        await invocation.pauses.hear()
    step = ModelStep(
        **invocation.place(ctx, ctx.lane.next_id()),
        attempt_timeout=invocation.opened.limits.model_timeout,
        model=node.model,
        calls_left=invocation.calls_left,
        max_llm_calls=invocation.request.run_config.max_llm_calls,
    )
    result = await invocation.runtime.perform(step)
    invocation.take(result)
    if result.model_called:
        invocation.count_model_call()
    else:
        invocation.spending.no_model_call()
    ctx.end_invocation = ctx.end_invocation or result.end_invocation
    return result


async def _run_code(invocation: Invocation, node: AgentNode, ctx: InvocationContext) -> Event:
    """The result of the code that the model's last event ends with (FLW-90)."""
    step = CodeStep(
        **invocation.place(ctx, ctx.lane.next_id()),
        attempt_timeout=node.code_timeout or invocation.opened.limits.tool_timeout,
    )
    result = await invocation.runtime.perform(step)
    invocation.take(result)
    ctx.end_invocation = ctx.end_invocation or result.end_invocation
    return result.event or Event()


def _final_text(node: AgentNode, ctx: InvocationContext, value: Any) -> Event:
    """The agent's final text, for an answer that came as a call of `set_model_response`.

    The call's response is committed already: a loop that is run again makes the same text of it.
    """
    text = types.Part(text=json.dumps(value, ensure_ascii=False))
    saved = {node.output_key: value} if node.output_key else {}
    return Event(
        id=ctx.lane.next_id(),
        author=ctx.agent_name,
        branch=ctx.branch,
        content=types.Content(role="model", parts=[text]),
        actions=EventActions(state_delta=saved),
    )
