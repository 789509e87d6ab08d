"""The event that replaces others by a summary."""

from collections.abc import Sequence

from google.genai import types

from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions, EventCompaction


def compaction_event(
    covered: Sequence[Event],
    summary: types.Content,
    *,
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None,
) -> Event:
    """Create the event that replaces the covered events by `summary`.

    Its id, invocation and timestamp are unset; the committer sets them.

    Args:
        covered: At least one event, in order. If the first is an earlier summary, the new one
            begins where that one began, and so replaces it.
        summary: The content for models; without a role it gets `model`, as in ADK 2.13.
        usage_metadata: The tokens that the summary cost.
    """
    first, last = covered[0].actions.compaction, covered[-1].actions.compaction
    compaction = EventCompaction(
        start_timestamp=first.start_timestamp if first else covered[0].timestamp,
        end_timestamp=last.end_timestamp if last else covered[-1].timestamp,
        compacted_content=summary.model_copy(update={"role": summary.role or "model"}),
    )
    first_id = (covered[0].compacted_event_ids or [covered[0].id])[0]
    last_id = (covered[-1].compacted_event_ids or [covered[-1].id])[-1]
    return Event(
        author="user",
        usage_metadata=usage_metadata,
        actions=EventActions(compaction=compaction),
        compacted_event_ids=[first_id, last_id] if first_id and last_id else None,
    )
