"""Calls of tools that may have begun, as Temporal tells it.

That an at-most-once tool has begun stands in a note of the session store, and a backup does not
have it. Without it the next attempt would take itself for the first (I8).
"""

import json
from collections.abc import Sequence

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowHistory
from temporalio.converter import DataConverter

from durable_adk.activities.commit.notes import BEGUN
from durable_adk.activities.tool.run import name_of_call
from durable_adk.sessions.log.rebuild import RebuiltNote
from durable_adk.wire.steps import ToolStep
from durable_adk.wire.tool_contract import ToolContract

ACTIVITY = "call_tool"


async def begun_calls(
    client: Client, execution: WorkflowExecution, history: WorkflowHistory, converter: DataConverter
) -> list[ToolStep]:
    """The calls that an open run waits for and that some worker has been given.

    A worker that was given a call may not have come to the tool. Nobody can tell, so that counts.
    """
    waiting = _waiting(history.events)
    if not waiting:
        return []
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    description = await handle.describe()
    given = {
        pending.activity_id
        for pending in description.raw_description.pending_activities
        if pending.attempt > 1
        or pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    }
    found: list[ToolStep] = []
    for event in waiting:
        asked = event.activity_task_scheduled_event_attributes
        if asked.activity_id in given:
            found += await converter.decode(asked.input.payloads, [ToolStep])
    return found


def _waiting(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The calls that were scheduled and have not ended."""
    calls: dict[int, HistoryEvent] = {}
    for event in events:
        if event.activity_task_scheduled_event_attributes.activity_type.name == ACTIVITY:
            calls[event.event_id] = event
        for ended in (
            event.activity_task_completed_event_attributes,
            event.activity_task_failed_event_attributes,
            event.activity_task_timed_out_event_attributes,
            event.activity_task_canceled_event_attributes,
        ):
            calls.pop(ended.scheduled_event_id, None)
    return list(calls.values())


def note_of(step: ToolStep) -> RebuiltNote | None:
    """The note that keeps the tool from being run again; None: its contract allows that.

    A tool that is known to its toolset only may promise anything. If it promises less, nobody reads
    the note.
    """
    if step.spec is not None and step.spec.contract is not ToolContract.AT_MOST_ONCE:
        return None
    # No attempt has this token, so whoever comes next finds that another one has begun.
    return RebuiltNote(step.invocation_id, BEGUN, name_of_call(step), json.dumps("restored"))
