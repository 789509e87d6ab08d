"""The body of an LlmAgent: model, tools, model, ... until a final answer (semantics 9)."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from google.genai import types

from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    PayloadTooLargeError,
    as_detail,
    from_detail,
    raised,
)
from durable_adk.events.event import Event
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.merge import error_response, merge_responses
from durable_adk.loop_context import InvocationContext
from durable_adk.messages import check_size
from durable_adk.payloads import AgentNode, ModelStep, StepResult, ToolSpec, ToolStep
from durable_adk.values import canonical

MAX_TASK_BYTES = 3_000_000
"""What the steps that are scheduled at once may be together; the engine ends a run at 4 MiB."""
MAX_TURN_BYTES = 8_000_000
"""The merged results of a turn; each alone has the limit of an event. They are in no payload."""


async def run_llm(
    invocation: Invocation, node: AgentNode, ctx: InvocationContext
) -> AsyncGenerator[Event, None]:
    """Yield the agent's events; after each one the caller commits it before it asks for the next.

    Raises:
        DurableAdkError: A step failed; what could be committed has been yielded before.
    """
    while not ctx.end_invocation:
        result = await _call_model(invocation, ctx)
        event = result.event
        if event is None:
            return
        yield event
        if event.get_function_calls():
            event_id = ctx.lane.next_id()
            results = await _call_tools(invocation, node, ctx, event, event_id)
            event = _one_event(results, event_id)
            yield event
            failed = next((item.error for item in results if item.error), None)
            if failed:
                raise from_detail(failed)
            if event.actions.transfer_to_agent:
                ctx.transfer = _target(event.actions.transfer_to_agent, results)
                return
        if event.is_final_response():
            return


def _target(name: str, results: list[StepResult]) -> AgentNode:
    """The agent to hand over to; the response that says so is committed already (AGT-50).

    Raises:
        AgentError: The model may not hand over to it, or it does not exist (AGT-53, 17.1).
    """
    for result in results:
        if result.transfer is not None and result.transfer.name == name:
            return result.transfer
    raise raised(AgentError, "ValueError", f"There is no agent {name!r} to transfer to.")


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


def _one_event(results: list[StepResult], event_id: str) -> Event:
    """The event of all responses: the only one's own, which may be committed, or a merged one."""
    events = [event for result in results if (event := result.event)]
    if results[0].seq:
        return events[0]
    event = merge_responses(events, event_id=event_id)
    check_size(event.to_json(), "The results of one turn's tools", MAX_TURN_BYTES)
    return event


async def _call_tools(
    invocation: Invocation,
    node: AgentNode,
    ctx: InvocationContext,
    event: Event,
    event_id: str,
) -> list[StepResult]:
    """Run an event's calls side by side; the results are in the order of the calls.

    When one fails, those still running are cancelled, and every call still has a response (FLW-46).
    Nothing here depends on which call finishes first, so replay takes the same way.
    """
    calls = event.get_function_calls()
    alone = len(calls) == 1
    _check_together(invocation, len(calls))
    place = invocation.place(ctx if alone else replace(ctx, direct=False), event_id)
    tasks: list[asyncio.Task[StepResult]] = []

    async def guarded(index: int, call: types.FunctionCall) -> StepResult:
        result = await _call_tool(invocation, node, place, call)
        if result.error:
            for other in tasks[:index] + tasks[index + 1 :]:
                other.cancel()  # those that have finished take no notice
        return result

    tasks.extend(asyncio.ensure_future(guarded(*item)) for item in enumerate(calls))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    invocation.tool_calls += len(calls)
    results = [_settled(call, outcome, ctx) for call, outcome in zip(calls, outcomes, strict=True)]
    if alone:
        invocation.take(results[0])
    ctx.end_invocation = ctx.end_invocation or any(item.end_invocation for item in results)
    return results


async def _call_tool(
    invocation: Invocation, node: AgentNode, place: dict[str, Any], call: types.FunctionCall
) -> StepResult:
    name = call.name or ""
    timeout = node.tools.get(name, ToolSpec()).timeout or invocation.opened.limits.tool_timeout
    step = ToolStep(**place, attempt_timeout=timeout, call_id=call.id or "", tool=name)
    try:
        return await invocation.runtime.call_tool(step)
    except DurableAdkError as error:
        return StepResult(error=as_detail(error))


def _check_together(invocation: Invocation, calls: int) -> None:
    """Refuse steps that are each small enough, but together more than one message may be (1c)."""
    local = len(canonical(invocation.local_state()).encode()) * calls
    if local > MAX_TASK_BYTES:
        raise PayloadTooLargeError(
            f"{calls} calls at once with the temp: state of each are {local:,} bytes; at most "
            f"{MAX_TASK_BYTES:,} can be sent together. Keep less in temp: keys."
        )


def _settled(
    call: types.FunctionCall, outcome: StepResult | BaseException, ctx: InvocationContext
) -> StepResult:
    """The outcome of one call, always with a response event."""
    if isinstance(outcome, asyncio.CancelledError):
        outcome = StepResult()
        message = "Cancelled because another call of the same turn failed; it may have run in part."
    elif isinstance(outcome, BaseException):
        raise outcome
    else:
        message = str((outcome.error or {}).get("message", "The tool gave no result."))
    if outcome.event is None:
        outcome.event = error_response(
            call.id or "", call.name or "", message, author=ctx.agent_name, branch=ctx.branch
        )
    return outcome
