"""Counts what Temporal Cloud bills: https://docs.temporal.io/cloud/actions."""

from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

_BILLED = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
)
"""One action each. Queries and heartbeats are billed, too, and in no history."""


def billed(history: Iterable[HistoryEvent]) -> int:
    """The billed actions in a history."""
    total, local = 0, set[int]()
    for event in history:
        if event.event_type in _BILLED:
            total += 1
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            total += event.activity_task_started_event_attributes.attempt  # each retry counts
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
            # All local activities of a workflow task are one action.
            local.add(event.marker_recorded_event_attributes.workflow_task_completed_event_id)
    return total + len(local)
