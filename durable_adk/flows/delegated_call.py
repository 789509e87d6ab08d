"""What a call asks of others between its two steps: an agent, or an activity of theirs."""

import asyncio
from typing import Any

from durable_adk.context.loop import InvocationContext
from durable_adk.errors import (
    DurableAdkError,
    PayloadTooLargeError,
    StateValueError,
    ToolResultError,
    as_detail,
)
from durable_adk.flows.invocation import Invocation
from durable_adk.json_values import canonical, check_json
from durable_adk.wire.activity_call import ActivityCall, ActivityEnd
from durable_adk.wire.messages import MAX_BYTES, InvocationRequest, ToolRun, check_size, child_key
from durable_adk.wire.steps import ChildEnd, ChildRun, StepResult, ToolStep

MAX_TASK_BYTES = 3_000_000
"""What the steps that are scheduled at once may be together; the engine ends a run at 4 MiB."""
MAX_STEP_BYTES = 2_000_000
"""What one of them may be; the engine ends a run at 2 MiB."""
MAX_RESULT_BYTES = MAX_BYTES - 10_000
"""The event round an activity's result needs some room as well."""
MIN_RESULT_BYTES = 10_000
"""What an activity has to be left for its result."""


async def finished(
    invocation: Invocation,
    ctx: InvocationContext,
    step: ToolStep,
    first: StepResult,
    *,
    together: int,
) -> StepResult:
    """The result of a call; if its first step wants something of others, that of its second.

    Args:
        invocation: The invocation.
        ctx: Where the call is.
        step: Its first step; the second has what came of it.
        first: What the first step has said.
        together: How many calls the turn has.

    Raises:
        CancelledError: The call is to end, but a step that finished took no notice.
    """
    if first.child is None and first.activity is None:
        return first
    _require_wanted(invocation, ctx)
    if first.child is not None:
        step.child = await _ask(invocation, first.child, step.call_id)
    elif first.activity is not None:
        room = min(MAX_STEP_BYTES, MAX_TASK_BYTES // together)
        step.activity = await _run(invocation, step, first.activity, room)
    _require_wanted(invocation, ctx)
    step.ended = None
    return await invocation.runtime.perform(step)


def _require_wanted(invocation: Invocation, ctx: InvocationContext) -> None:
    """Begin nothing any more for a call that was cancelled, be it by a call beside it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    invocation.require_wanted(ctx)


async def _ask(invocation: Invocation, child: ChildRun, call_id: str) -> ChildEnd:
    """Run the agent that a call asks, in a session of its own (OPEN-6)."""
    key = child_key(invocation.key, invocation.invocation_id, call_id)
    request = InvocationRequest(
        app=key.app_name,
        user=key.user_id,
        session=key.session_id,
        message=child.message,
        invocation_id=invocation.invocation_id,
        run_config=invocation.request.run_config.for_tool(
            invocation.spending.left(invocation.runtime.now())
        ),
        tool_run=ToolRun(
            agent=child.agent,
            caller=invocation.artifact_owner or invocation.key,
            include_plugins=child.include_plugins,
        ),
    )
    end = ChildEnd(key=key, actions=child.actions, started=invocation.runtime.now())
    try:
        invocation.spending.by_agent(await invocation.runtime.run_child(request))
    except DurableAdkError as error:
        end.error = as_detail(error)
    end.ended = invocation.runtime.now()
    return end


async def _run(
    invocation: Invocation, step: ToolStep, call: ActivityCall, room: int
) -> ActivityEnd:
    """Run the activity that a tool is, unless no step could carry what it gives or is given.

    Args:
        invocation: The invocation.
        step: The call's first step.
        call: What to run.
        room: Bytes that one payload of each of the turn's calls may have.
    """
    runtime = invocation.runtime
    started, result, problem = runtime.now(), None, None
    try:
        left = _room(step, call, room)
        result = await runtime.run_activity(step, call)
        _check_result(result, call.activity, left)
    except DurableAdkError as error:
        result, problem = None, as_detail(error)
    return ActivityEnd(
        changed=call.changed,
        actions=call.actions,
        end_invocation=call.end_invocation,
        result=result,
        error=problem,
        started=started,
        ended=runtime.now(),
    )


def _room(step: ToolStep, call: ActivityCall, room: int) -> int:
    """Bytes that the result may have, beside what else its step carries.

    Raises:
        PayloadTooLargeError: Too few for any result. The activity must not run then: nobody would
            be told what came of it.
    """
    check_size(canonical(call.args), f"What activity {call.activity!r} is given", room)
    carried = [step.local_state, call.changed, call.actions.model_dump(mode="json")]
    left = min(MAX_RESULT_BYTES, room - len(canonical(carried).encode()))
    if left < MIN_RESULT_BYTES:
        raise PayloadTooLargeError(
            f"Activity {call.activity!r} was not run: state and arguments that callbacks have "
            f"changed leave {max(0, left)} bytes for its result. Keep less in `temp:` state."
        )
    return left


def _check_result(result: Any, activity: str, room: int) -> None:
    """Raise ToolResultError if no event, or no step, can hold it."""
    what = f"The result of activity {activity!r}"
    try:
        check_json(result, what)
        check_size(canonical(result), what, room)
    except (StateValueError, PayloadTooLargeError) as error:
        raise ToolResultError(error.message) from None
