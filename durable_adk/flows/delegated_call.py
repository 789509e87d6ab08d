"""Tool calls delegated, between their two steps, to an agent or an external activity."""

import asyncio
from typing import Any

from durable_adk.errors import (
    DurableAdkError,
    PayloadTooLargeError,
    StateValueError,
    ToolResultError,
    as_detail,
)
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.state import LoopState
from durable_adk.json_values import canonical, check_json
from durable_adk.wire.activity_call import ActivityCall, ActivityEnd
from durable_adk.wire.messages import MAX_BYTES, InvocationRequest, ToolRun, check_size, child_key
from durable_adk.wire.steps import ChildEnd, ChildRun, StepResult, ToolStep

MAX_TASK_BYTES = 3_000_000
"""Maximum bytes of all steps scheduled at once; Temporal fails a workflow run at 4 MiB."""
MAX_STEP_BYTES = 2_000_000
"""Maximum bytes of one step; Temporal fails a workflow run at 2 MiB."""
MAX_RESULT_BYTES = MAX_BYTES - 10_000
"""Maximum bytes of an activity's result; the event around it needs some bytes too."""
MIN_RESULT_BYTES = 10_000
"""Minimum bytes that must be left for an activity's result."""


async def finished(
    state: LoopState,
    scope: AgentScope,
    step: ToolStep,
    first: StepResult,
    *,
    together: int,
) -> StepResult:
    """Return the result of a tool call: of its first step or, if that delegates the call, its last.

    Args:
        state: The invocation's.
        scope: The run of the agent that made the call.
        step: The first step; the next one also has the result of the delegation.
        first: The first step's result.
        together: Number of calls in the turn.

    Raises:
        CancelledError: The call is to end; the step that finished has swallowed the cancellation.
    """
    result = first
    while result.child is not None or result.activity is not None:
        _require_active(state, scope)
        if result.child is not None:
            if step.child is not None:  # the tool's own code requests another run
                step.children.append(step.child)
            step.child = await _run_agent(state, result.child, step)
        elif result.activity is not None:
            room = min(MAX_STEP_BYTES, MAX_TASK_BYTES // together)
            step.activity = await _run_activity(state, step, result.activity, room)
        _require_active(state, scope)
        step.ended = None
        result = await state.runtime.perform(step)
    return result


def _require_active(state: LoopState, scope: AgentScope) -> None:
    """Raise CancelledError if the call was cancelled, for example by a call beside it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    state.require_active(scope.branch)


async def _run_agent(state: LoopState, child: ChildRun, step: ToolStep) -> ChildEnd:
    """Run an agent used as a tool, in a session of its own (OPEN-6)."""
    key = child_key(state.key, state.invocation_id, step.call_id, len(step.children))
    request = InvocationRequest(
        app=key.app_name,
        user=key.user_id,
        session=key.session_id,
        message=child.message,
        state_delta=child.state_delta,
        invocation_id=state.invocation_id,
        run_config=state.checkpoint.request.run_config.for_tool(
            state.budget.left(state.runtime.now())
        ),
        tool_run=ToolRun(
            agent=child.agent,
            caller=state.key,
            root=state.artifact_owner or state.key,
            include_plugins=child.include_plugins,
        ),
    )
    end = ChildEnd(
        key=key, actions=child.actions, changed=child.changed, started=state.runtime.now()
    )
    try:
        state.budget.by_agent(await state.runtime.run_child(request))
    except DurableAdkError as error:
        end.error = as_detail(error)
    end.ended = state.runtime.now()
    return end


async def _run_activity(
    state: LoopState, step: ToolStep, call: ActivityCall, room: int
) -> ActivityEnd:
    """Run the activity that backs a tool, unless its arguments or result would not fit into a step.

    Args:
        state: The invocation's.
        step: The call's first step.
        call: The activity to run.
        room: Limit in bytes for one payload of each of the turn's calls.
    """
    runtime = state.runtime
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
    """Return the bytes left for the result beside the rest of its step.

    Raises:
        PayloadTooLargeError: Too few for any result. The activity must not run then, because its
            outcome would be lost.
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
    """Raise ToolResultError if the result fits into no event or step."""
    what = f"The result of activity {activity!r}"
    try:
        check_json(result, what)
        check_size(canonical(result), what, room)
    except (StateValueError, PayloadTooLargeError) as error:
        raise ToolResultError(error.message) from None
