"""Tool calls that may have started, according to Temporal.

The session store records the start of an at-most-once tool; an older backup lacks the record, and
the next attempt would consider itself the first (I8).
"""

import json
from collections.abc import Sequence

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowHistory
from temporalio.converter import DataConverter

from durable_adk.activities.commit.notes import BEGUN
from durable_adk.activities.tool.contract import contract_name
from durable_adk.sessions.log.rebuild import RebuiltNote
from durable_adk.wire.steps import NodeStep, ToolStep
from durable_adk.wire.tool_contract import ToolContract

_STEPS: dict[str, type[ToolStep] | type[NodeStep]] = {"call_tool": ToolStep, "run_node": NodeStep}
"""The steps that call tools, by the names of their activities."""


async def started_calls(
    client: Client, execution: WorkflowExecution, history: WorkflowHistory, converter: DataConverter
) -> list[ToolStep | NodeStep]:
    """Return the pending calls of an open run that a worker has picked up.

    The worker may not have reached the tool. No record shows that, so the call counts as started.
    """
    pending = _pending_calls(history.events)
    if not pending:
        return []
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    description = await handle.describe()
    picked_up = {
        activity.activity_id
        for activity in description.raw_description.pending_activities
        if activity.attempt > 1
        or activity.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    }
    steps: list[ToolStep | NodeStep] = []
    for event in pending:
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_id in picked_up:
            kind = _STEPS[scheduled.activity_type.name]
            steps += await converter.decode(scheduled.input.payloads, [kind])
    return steps


def _pending_calls(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """Return the steps that call tools, that were scheduled and have not ended."""
    calls: dict[int, HistoryEvent] = {}
    for event in events:
        if event.activity_task_scheduled_event_attributes.activity_type.name in _STEPS:
            calls[event.event_id] = event
        for ended in (
            event.activity_task_completed_event_attributes,
            event.activity_task_failed_event_attributes,
            event.activity_task_timed_out_event_attributes,
            event.activity_task_canceled_event_attributes,
        ):
            calls.pop(ended.scheduled_event_id, None)
    return list(calls.values())


def started_note(step: ToolStep | NodeStep) -> RebuiltNote | None:
    """Return the note that prevents another run of the tool; None if its contract permits one.

    The contract of a toolset's tool is unknown here, so it also gets the note. A weaker contract
    ignores it.
    """
    is_known = isinstance(step, NodeStep) or step.spec is not None
    if is_known and step.contract is not ToolContract.AT_MOST_ONCE:
        return None
    # No attempt has this token, so the next attempt concludes that another one has started.
    return RebuiltNote(step.invocation_id, BEGUN, contract_name(step), json.dumps("restored"))
