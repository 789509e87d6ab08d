"""The events of a session that still count, after its rewinds and compactions (FLW-29).

Nothing is ever deleted (TRAP-51): a rewind and a summary are events of their own, and what they
mean is worked out here, each time the events are read. Positions are those in the list given, which
is the store's order; timestamps order nothing (TRAP-15).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions, EventCompaction
from durable_adk.sessions.records import GetSessionConfig

USER = "user"
SUMMARY_AUTHOR = "model"
"""Who a summary is by, in a prompt; no agent's doing, and not the user's words."""


def is_visible(event: Event, branch: str | None) -> bool:
    """Whether the event is on the branch or an ancestor of it, by whole segments (TRAP-33)."""
    return not branch or not event.branch or f"{branch}.".startswith(f"{event.branch}.")


def visible_history(events: Sequence[Event], *, branch: str | None = None) -> list[Event]:
    """The events that count, with summaries in the place of what they cover; none is changed.

    A summary is an event by `SUMMARY_AUTHOR` whose content is the summary; it stands before
    whatever of its stretch is still shown. That is a call that is pending, and each event that is
    paired with one outside the stretch, such as the call of a late response (CMP-2).

    Args:
        events: The session's committed events, in order.
        branch: On a branch, events of its siblings are left out, and so is a summary that retells
            some of them: there the events that it covers are shown themselves (FLW-21).
    """
    kept = not_rewound(events)
    known = summaries(kept)
    shown = [event for _, event in with_summaries(kept, known, branch=branch)]
    return [event for event in shown if is_visible(event, branch)] if branch else shown


def not_rewound(events: Sequence[Event]) -> list[Event]:
    """The events that no rewind has taken back; for whoever asks who spoke last (REW-1, AGT-41).

    A rewind brings back the session as it was before an invocation. What was taken back then is
    taken back again, and a rewind that was made only later counts no more: to rewind before a
    rewind undoes it. A rewind to an invocation that is not there means nothing.
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
    """Of the events that count those since a time, and of these the last so many (SSN-6, TRAP-16).

    What a rewind has taken back is left out first: else it would count again where the limit cuts
    off the place that the rewind goes back to.
    """
    since, last = config.after_timestamp, config.num_recent_events
    kept = [event for event in not_rewound(events) if since is None or event.timestamp >= since]
    return kept if last is None else kept[max(len(kept) - last, 0) :]


@dataclass(frozen=True)
class Summary:
    """A summary and the stretch of events that it covers."""

    first: int
    """Position of its first event."""
    last: int
    """Position of its last event."""
    event: Event
    """As it is shown: its content is the summary."""

    def covers(self, other: "Summary") -> bool:
        """Whether everything that the other retells is retold here."""
        return self.first <= other.first and other.last <= self.last


def summaries(events: Sequence[Event]) -> list[Summary]:
    """All summaries whose events are there, oldest first."""
    if all(event.actions.compaction is None for event in events):
        return []
    found: list[Summary] = []
    places: dict[str, int] = {}
    for position, event in enumerate(events):
        compaction = event.actions.compaction
        if compaction is None:
            places[event.id] = position
            continue
        stretch = _by_ids(compaction, places) or _by_times(compaction, events[:position])
        if stretch:
            first, last = stretch
            resolved = compaction.model_copy(
                update={
                    "first_event_id": events[first].id or None,
                    "last_event_id": events[last].id or None,
                }
            )
            found.append(Summary(first, last, _as_shown(event, resolved)))
    return found


def _by_ids(compaction: EventCompaction, places: dict[str, int]) -> tuple[int, int] | None:
    first = places.get(compaction.first_event_id or "")
    last = places.get(compaction.last_event_id or "")
    named = compaction.first_event_id and compaction.last_event_id
    return (first, last) if named and first is not None and last is not None else None


def _by_times(compaction: EventCompaction, before: Sequence[Event]) -> tuple[int, int] | None:
    """As ADK names it, or where only the end of the session was loaded."""
    start, end = compaction.start_timestamp, compaction.end_timestamp
    within = [
        position
        for position, event in enumerate(before)
        if start <= event.timestamp <= end and event.actions.compaction is None
    ]
    return (within[0], within[-1]) if within else None


def _as_shown(event: Event, compaction: EventCompaction) -> Event:
    content = compaction.compacted_content
    return event.model_copy(
        update={
            "actions": EventActions(compaction=compaction),
            "author": SUMMARY_AUTHOR,
            "timestamp": compaction.start_timestamp,
            "content": content.model_copy(update={"role": content.role or "model"}),
        }
    )


def with_summaries(
    events: Sequence[Event], known: Sequence[Summary], *, branch: str | None = None
) -> list[tuple[int, Event]]:
    """Each event that is shown, with its position; a summary has that of its first event.

    A summary is superseded by a later one that covers all of its events.
    """
    valid: list[Summary] = []
    for summary in reversed(known):
        stretch = events[summary.first : summary.last + 1]
        told = branch is None or all(is_visible(event, branch) for event in stretch)
        if told and not any(later.covers(summary) for later in valid):
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
    """Positions that a summary may not stand for, lest it come between a call and a response."""
    calls = CallPairs.of(events)
    apart = calls.pending(events) | {p for pair in calls.pairs for p in pair if p not in covered}
    grown = -1
    while grown != len(apart):  # an event may be paired with several, each of them with others
        grown = len(apart)
        for pair in calls.pairs:
            if not apart.isdisjoint(pair):
                apart.update(pair)
    return apart


@dataclass
class CallPairs:
    """Which function calls were answered where."""

    pairs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Positions of a call and of a response to it; there may be several responses."""
    unanswered: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Position and id of each call without a response."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> "CallPairs":
        """Those of a history; a response is to the latest call of its id, as ids may recur."""
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
        """Positions of the long-running calls that wait for their response."""
        return {
            position
            for position, call_id in self.unanswered
            if call_id in (events[position].long_running_tool_ids or ())
        }
