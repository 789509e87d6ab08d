"""The events of a session that are in effect after its rewinds and compactions (FLW-29).

Events are never deleted (TRAP-51): a rewind and a summary are events too, and their effect is
computed here whenever the events are read. Positions are indexes into the given list, which is in
the order of the store; timestamps do not define an order (TRAP-15).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from google.genai import types

from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions, EventCompaction
from durable_adk.sessions.records import GetSessionConfig

USER = "user"
SUMMARY_AUTHOR = "model"
"""Author of a summary in a prompt, which is neither an agent nor the user."""


def is_visible(event: Event, branch: str | None) -> bool:
    """Return whether a branch sees an event: any but those of sibling branches (TRAP-33).

    A branch is named by pairs: a ParallelAgent and its child. Two children of one ParallelAgent run
    at the same time. Two ParallelAgents on one branch, and all that runs on it, run one after the
    other.
    """
    theirs, own = (event.branch or "").split("."), (branch or "").split(".")
    pairs = enumerate(zip(theirs, own, strict=False))
    first = next((place for place, (one, other) in pairs if one != other), 0)
    return not branch or not event.branch or first % 2 == 0


def visible_history(events: Sequence[Event], *, branch: str | None = None) -> list[Event]:
    """Return the events in effect, with summaries in place of the events they cover.

    A summary is an event by `SUMMARY_AUTHOR` whose content is the summary. It precedes those of its
    covered events that are still shown: pending calls, and events paired with an event outside of
    the covered range, such as the call of a late response (CMP-2). No event is changed.

    Args:
        events: The session's committed events, in order.
        branch: On a branch, events of sibling branches are left out. So is a summary that covers
            some of them; the events that it covers are shown instead (FLW-21).
    """
    kept = not_rewound(events)
    known = summaries(kept)
    shown = [event for _, event in with_summaries(kept, known, branch=branch)]
    return [event for event in shown if is_visible(event, branch)] if branch else shown


def not_rewound(events: Sequence[Event]) -> list[Event]:
    """Return the events that no rewind removed (REW-1, AGT-41).

    A rewind restores the session as it was before an invocation. Events that were removed at that
    time are removed again, and rewinds after that time no longer count: rewinding to before a
    rewind undoes it. A rewind to an unknown invocation has no effect.
    """
    if not any(event.actions.rewind_before_invocation_id for event in events):
        return list(events)
    starts: dict[str, int] = {}
    for position, event in enumerate(events):
        starts.setdefault(event.invocation_id, position)
    kept: list[Event] = []
    position = len(events) - 1
    while position >= 0:
        event = events[position]
        target = event.actions.rewind_before_invocation_id if event.author == USER else None
        start = starts.get(target, len(events)) if target else len(events)
        if start <= position:
            position = start - 1
        else:
            kept.append(event)
            position -= 1
    kept.reverse()
    return kept


def recent(events: Sequence[Event], config: GetSessionConfig) -> list[Event]:
    """Return the events in effect that `config` selects by time and number (SSN-6, TRAP-16).

    Rewound events are removed first. Otherwise they would reappear if the limit cut off the start
    of the invocation that the rewind names.
    """
    since, last = config.after_timestamp, config.num_recent_events
    kept = [event for event in not_rewound(events) if since is None or event.timestamp >= since]
    return kept if last is None else kept[max(len(kept) - last, 0) :]


@dataclass(frozen=True)
class Summary:
    """A summary and the range of events that it covers."""

    first: int
    """Position of the first covered event."""
    last: int
    """Position of the last covered event."""
    event: Event
    """The event for the prompt: its content is the summary."""

    def covers(self, other: "Summary") -> bool:
        """Return whether this covers all events that the other covers."""
        return self.first <= other.first and other.last <= self.last


def is_blank(summary: types.Content) -> bool:
    """Return whether a summary has no text but thoughts, so that the events must stay."""
    said = [part for part in summary.parts or () if not part.thought and part != types.Part()]
    return all(part.text is not None and not part.text.strip() for part in said)


def summaries(events: Sequence[Event]) -> list[Summary]:
    """Return all summaries whose covered events are present, oldest first, without blank ones."""
    if all(event.actions.compaction is None for event in events):
        return []
    found: list[Summary] = []
    positions: dict[str, int] = {}
    for position, event in enumerate(events):
        compaction = event.actions.compaction
        if compaction is None:
            positions[event.id] = position
            continue
        covered = _by_ids(event, positions) or _by_times(compaction, events[:position])
        if covered and not is_blank(compaction.compacted_content):
            first, last = covered
            ids = [events[first].id, events[last].id]
            found.append(Summary(first, last, _as_shown(event, compaction, ids)))
    return found


def _by_ids(summary: Event, positions: dict[str, int]) -> tuple[int, int] | None:
    first, last = (positions.get(name) for name in summary.compacted_event_ids or ("", ""))
    return (first, last) if first is not None and last is not None else None


def _by_times(compaction: EventCompaction, before: Sequence[Event]) -> tuple[int, int] | None:
    """Return the range by time: for ADK's summaries, which lack ids, or if it is partly loaded."""
    start, end = compaction.start_timestamp, compaction.end_timestamp
    within = [
        position
        for position, event in enumerate(before)
        if start <= event.timestamp <= end and event.actions.compaction is None
    ]
    return (within[0], within[-1]) if within else None


def _as_shown(event: Event, compaction: EventCompaction, ids: list[str]) -> Event:
    content = compaction.compacted_content
    return event.model_copy(
        update={
            "compacted_event_ids": ids if all(ids) else None,
            "actions": EventActions(compaction=compaction),
            "author": SUMMARY_AUTHOR,
            "timestamp": compaction.start_timestamp,
            "content": content.model_copy(update={"role": content.role or "model"}),
        }
    )


def with_summaries(
    events: Sequence[Event], known: Sequence[Summary], *, branch: str | None = None
) -> list[tuple[int, Event]]:
    """Return the shown events with their positions; a summary has the position of its first event.

    A later summary that covers all events of an earlier one replaces it.
    """
    valid: list[Summary] = []
    for summary in reversed(known):
        covered_events = events[summary.first : summary.last + 1]
        visible = branch is None or all(is_visible(event, branch) for event in covered_events)
        if visible and not any(later.covers(summary) for later in valid):
            valid.append(summary)
    covered = {position for one in valid for position in range(one.first, one.last + 1)}
    covered -= _unsplit(events, covered) if covered else set()
    begins: dict[int, list[Event]] = {}
    for summary in reversed(valid):
        begins.setdefault(summary.first, []).append(summary.event)
    shown: list[tuple[int, Event]] = []
    for position, event in enumerate(events):
        shown += [(position, summary) for summary in begins.get(position, ())]
        if position not in covered and event.actions.compaction is None:
            shown.append((position, event))
    return shown


def _unsplit(events: Sequence[Event], covered: set[int]) -> set[int]:
    """Return the covered positions to keep, because their call or response is not covered."""
    calls = CallPairs.of(events)
    apart = calls.pending(events) | {p for pair in calls.pairs for p in pair if p not in covered}
    grown = -1
    while grown != len(apart):  # pairs may form chains
        grown = len(apart)
        for pair in calls.pairs:
            if not apart.isdisjoint(pair):
                apart.update(pair)
    return apart


@dataclass
class CallPairs:
    """The function calls of a history and the positions of their responses."""

    pairs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Positions of a call and of a response to it; a call may have several responses."""
    unanswered: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Position and id of each call without a response."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> "CallPairs":
        """Return the pairs of a history. Ids may repeat; a response belongs to the latest call."""
        calls = cls()
        callers: dict[str, int] = {}
        for position, event in enumerate(events):
            for response in event.get_function_responses():
                if response.id in callers:
                    calls.pairs.append((callers[response.id], position))
                    calls.unanswered.discard((callers[response.id], response.id))
            for call in event.get_function_calls():
                if call.id:
                    callers[call.id] = position
                    calls.unanswered.add((position, call.id))
        return calls

    def pending(self, events: Sequence[Event]) -> set[int]:
        """Return the positions of long-running calls without a response."""
        return {
            position
            for position, call_id in self.unanswered
            if call_id in (events[position].long_running_tool_ids or ())
        }
