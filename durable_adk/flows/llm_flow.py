"""The body of an LlmAgent: model, tools, model, ... until a final answer (semantics 9)."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types

from durable_adk.closing import closing
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.tool_turn import ToolTurn
from durable_adk.loop_context import InvocationContext
from durable_adk.payloads import AgentNode, CodeStep, ModelStep, StepResult


async def run_llm(
    invocation: Invocation, node: AgentNode, ctx: InvocationContext
) -> AsyncGenerator[Event, None]:
    """Yield the agent's events; after each one the caller commits it before it asks for the next.

    A long-running call that has an interim result lets the model speak; the agent has not ended
    before the real one came.

    Raises:
        DurableAdkError: A step failed; what could be committed has been yielded before.
    """
    unsettled: set[str] = set()
    while not ctx.end_invocation:
        # What was answered meanwhile is in the prompt that is built now.
        unsettled -= invocation.pauses.consume(unsettled)
        result = await _call_model(invocation, ctx)
        final = result.event is None
        if result.event is not None:
            yield result.event
            final = result.event.is_final_response()
            if node.runs_code and pending_code(result.event.content) is not None:
                yield await _run_code(invocation, node, ctx)
                final = False
            if result.event.get_function_calls():
                turn = ToolTurn(invocation, node, ctx, result)
                async with closing(turn.run()) as events:
                    async for event in events:
                        yield event
                unsettled |= turn.interim
                final = turn.final
                if turn.answer is not None and ctx.transfer is None:
                    yield _answer(node, ctx, turn.answer)
                    final = True
        if ctx.transfer is not None or (final and not unsettled):
            break
        if final:
            unsettled.discard(await invocation.pauses.answer_to(sorted(unsettled)))
    # Who hands over, or is ended, waits no longer; a late answer starts another invocation.
    for call_id in sorted(unsettled):
        invocation.pauses.forget(call_id)


async def _call_model(invocation: Invocation, ctx: InvocationContext) -> StepResult:
    step = ModelStep(
        **invocation.place(ctx, ctx.lane.next_id()),
        attempt_timeout=invocation.opened.limits.model_timeout,
        calls_left=invocation.calls_left,
        max_llm_calls=invocation.request.run_config.max_llm_calls,
    )
    result = await invocation.runtime.call_model(step)
    invocation.take(result)
    if result.model_called:
        invocation.count_model_call()
    ctx.end_invocation = ctx.end_invocation or result.end_invocation
    return result


async def _run_code(invocation: Invocation, node: AgentNode, ctx: InvocationContext) -> Event:
    """The result of the code that the model's last event ends with (FLW-90)."""
    step = CodeStep(
        **invocation.place(ctx, ctx.lane.next_id()),
        attempt_timeout=node.code_timeout or invocation.opened.limits.tool_timeout,
    )
    result = await invocation.runtime.execute_code(step)
    invocation.take(result)
    ctx.end_invocation = ctx.end_invocation or result.end_invocation
    return result.event or Event()


def _answer(node: AgentNode, ctx: InvocationContext, value: Any) -> Event:
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
