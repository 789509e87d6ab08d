"""The summary that stands for a stretch of a session's events."""

from collections.abc import Sequence

from google.genai import types
from pydantic import ValidationError

from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import Wire


class EventCompaction(Wire):
    """What `EventActions.compaction` holds, in its JSON form (semantics CMP-1).

    ADK names the stretch by timestamps only, and those can tie (TRAP-15). The ids are ours, go
    before them, and are missing from what ADK wrote.
    """

    start_timestamp: float
    """Of the first event; seconds since the epoch."""
    end_timestamp: float
    """Of the last event; seconds since the epoch."""
    compacted_content: types.Content
    """What a model is shown in the place of the events."""
    first_event_id: str | None = None
    last_event_id: str | None = None


def compaction_of(event: Event) -> EventCompaction | None:
    """The event's summary; None as well for one that nobody can read, as it must block no prompt.

    Whoever writes it may leave out what another reader needs, and a newer one may add to it.
    """
    if event.actions.compaction is None:
        return None
    try:
        return EventCompaction.model_validate(event.actions.compaction, extra="ignore")
    except ValidationError:
        return None


def with_compaction(event: Event, compaction: EventCompaction) -> Event:
    """A copy of the event that carries this summary and asks for nothing else."""
    stored = compaction.model_dump(mode="json", by_alias=True, exclude_none=True)
    return event.model_copy(update={"actions": EventActions.model_validate({"compaction": stored})})


def compaction_event(
    covered: Sequence[Event],
    summary: types.Content,
    *,
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None,
) -> Event:
    """The event that puts `summary` in the place of the events from the first to the last given.

    It has neither id nor invocation nor timestamp: who commits it gives it those.

    Args:
        covered: At least one event, in order. Where the first is itself an earlier summary, the new
            one begins where that began, so it replaces it.
        summary: What models are to be shown; with the role it has, or else `model`, as 2.13.
        usage_metadata: What making the summary cost.
    """
    first, last = compaction_of(covered[0]), compaction_of(covered[-1])
    compaction = EventCompaction(
        start_timestamp=first.start_timestamp if first else covered[0].timestamp,
        end_timestamp=last.end_timestamp if last else covered[-1].timestamp,
        compacted_content=summary.model_copy(update={"role": summary.role or "model"}),
        first_event_id=(first.first_event_id if first else covered[0].id) or None,
        last_event_id=(last.last_event_id if last else covered[-1].id) or None,
    )
    return with_compaction(Event(author="user", usage_metadata=usage_metadata), compaction)
