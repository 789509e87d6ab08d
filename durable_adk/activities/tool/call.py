"""Runs one tool call as a step, and converts its outcome to the step's result."""

from functools import partial

from google.genai import types

from durable_adk.activities.model.model_events import text_before
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.tool.contract import ToolNotStartedError
from durable_adk.activities.tool.response_event import (
    pending_result,
    request_metadata,
    response_event,
    waits_for_user,
)
from durable_adk.activities.tool.run import (
    RetryLater,
    ToolAttempt,
)
from durable_adk.activities.tool.tool_call import CallOutcome, ToolCall
from durable_adk.agents.llm_agent import is_task
from durable_adk.calling import time_limit
from durable_adk.context.activity import ToolContext
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.model_event import save_output
from durable_adk.conversation.pending_calls import FINAL_RESPONSES
from durable_adk.conversation.routing import hand_over
from durable_adk.errors import (
    DurableAdkError,
    ToolTimeoutError,
    as_detail,
)
from durable_adk.json_values import check_json
from durable_adk.sessions.call_attempt import AttemptEnd
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.graph.node_run import CalledNode
from durable_adk.wire.manifest import Wait
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import ChildRun, StepResult, ToolStep


async def call_tool(active: ActiveStep[ToolStep]) -> StepResult:
    """Run one tool call and return its response as an event, or its exception as `error`.

    If the worker dies during the call, another worker runs the tool again with the same
    `ToolContext.idempotency_key`, unless its result was already stored or its contract forbids
    a second run (D11).

    Raises:
        RetryLater: The tool raised and its retry policy allows another run, or its toolset is
            unavailable.
        StoreUnavailableError: A store was unavailable; the call is to be retried.
    """
    await active.load()
    run = ToolAttempt(active)
    async with run.recorder.recorded():
        call = await ToolCall.of(run)
        if call.received is None:
            await run.recorder.record_lost()
        await active.attempt.begins()
        try:
            return await _performed(call)
        except RetryLater as again:
            await run.recorder.ended(AttemptEnd.FAILED, again.error)
            raise


async def _performed(call: ToolCall) -> StepResult:
    run, step = call.run, call.run.step
    try:
        await call.find_tool()  # outside the time limit: the tool has not started
        async with time_limit(step.attempt_timeout):
            outcome = await call.outcome()
        run.active.repeatable = outcome.tool is not None and run.can_repeat(outcome.tool)
        return _result(call, outcome)
    except TimeoutError:
        unknown = run.overdue(call.name)
        if unknown is not None:
            return _result(call, CallOutcome(response=unknown))
        timeout = ToolTimeoutError(
            f"Tool {call.name!r} did not finish in {step.attempt_timeout:g} s; it may still run. "
            "Give the tool a longer timeout."
        )
        return StepResult(error=as_detail(timeout))
    except ToolNotStartedError as error:
        raise error.error from error
    except DurableAdkError as error:
        if run.waits_for_store(error):
            raise
        return StepResult(error=as_detail(error))


def _result(call: ToolCall, outcome: CallOutcome) -> StepResult:
    """Build the step's result from the outcome of the call.

    Raises:
        DurableAdkError: The response cannot be stored.
    """
    context, active = call.context, call.run.active
    step, scope, agent = active.step, active.scope, active.llm_agent
    if outcome.asks is not None:
        check_json(context.state.collect_delta(), "state_delta")
        outcome.asks.actions = context.actions
        return _asking(outcome.asks, scope)
    if outcome.pending and not waits_for_user(context):
        return pending_result(context, step)
    received = call.received
    noted = received.media if received and outcome.response is received.response else []
    event = response_event(
        outcome.response, call.call, context, step, tool=outcome.tool, noted=noted
    )
    # If the agent's output becomes its caller's, it follows the response as text.
    before = partial(text_before, scope, step)
    key = None if is_task(agent) else agent.output_key
    save_output(event, output_key=key, schema=agent.output_schema, before=before)
    event.custom_metadata = request_metadata(context)
    waits = _waits(outcome, call.call, context)
    if outcome.long_running and not waits:
        event.custom_metadata = {FINAL_RESPONSES: [step.call_id]}
    return StepResult(
        event=event,
        end_invocation=scope.end_invocation,
        transfer=hand_over(agent, event.actions.transfer_to_agent),
        waits=waits,
    )


def _asking(asks: ChildRun | ActivityCall | CalledNode, scope: StepScope) -> StepResult:
    """Build the result of a step whose tool needs an agent, an activity or a node to run first.

    Raises:
        PayloadTooLargeError: The activity call is larger than a message may be.
    """
    if isinstance(asks, ChildRun):
        return StepResult(child=asks, end_invocation=scope.end_invocation)
    if isinstance(asks, CalledNode):
        return StepResult(called=asks, end_invocation=scope.end_invocation)
    asks.end_invocation = scope.end_invocation
    check_size(asks.to_json(), f"The call of activity {asks.activity!r}")
    return StepResult(activity=asks)


def _waits(outcome: CallOutcome, call: types.FunctionCall, context: ToolContext) -> dict[str, Wait]:
    if outcome.tool is None or not (waits_for_user(context) or outcome.is_interim):
        return {}
    wait = Wait(deadline=outcome.tool.deadline, on_deadline=outcome.tool.on_deadline)
    return {call.id or "": wait}
