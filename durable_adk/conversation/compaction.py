"""Selects the events of a session that are due to be summarized (CMP-1).

An activity calls the summarizer and appends the event, after the invocation has ended.
"""

import json
from collections.abc import Sequence

from google.genai import types

from durable_adk.apps.compaction import EventsCompactionConfig
from durable_adk.conversation.history import (
    CallPairs,
    Summary,
    is_blank,
    not_rewound,
    summaries,
    with_summaries,
)
from durable_adk.events.event import Event
from durable_adk.events.event_compaction import compaction_event

_CHARACTERS_PER_TOKEN = 4


def events_to_compact(events: Sequence[Event], config: EventsCompactionConfig) -> list[Event]:
    """Return the events that are due to be summarized, in order; [] if none are.

    There are two triggers; the first that applies is used:

    * *Tokens*: a prompt since the last summary had `token_threshold` tokens. All but the last
      `event_retention_size` events are due; earlier summaries represent the events that they
      cover, and the new summary replaces them.
    * *Interval*: `compaction_interval` invocations have events that no summary covers. These and
      the `overlap_size` invocations before them are due, with their original events.

    The range ends before the first call whose response is outside of it, so that no pair is split
    and no pending call disappears (CMP-2). It is [] if all its events are already summarized.

    Args:
        events: The session's committed events up to the end of the closed invocation, in order.
        config: The app's compaction settings.
    """
    live = not_rewound(events)
    known = summaries(live)
    return _by_tokens(live, known, config) or _by_interval(live, known, config)


def summary_event(made: Event, covered: Sequence[Event]) -> Event | None:
    """Return the event to append for a summarizer's result; None if it has no summary to show.

    It names the covered events by id, because a summarizer only knows their timestamps.
    """
    compaction = made.actions.compaction
    if compaction is None or is_blank(compaction.compacted_content):
        return None
    summary = compaction.compacted_content
    return compaction_event(covered, summary, usage_metadata=made.usage_metadata)


def _by_tokens(
    live: Sequence[Event], known: Sequence[Summary], config: EventsCompactionConfig
) -> list[Event]:
    if config.token_threshold is None or config.event_retention_size is None:
        return []
    if _prompt_tokens(live, known) < config.token_threshold:
        return []
    plain = _plain(live)
    retained = plain[max(0, len(plain) - config.event_retention_size) :]
    stop = _before_open_calls(live, known, retained[0] if retained else len(live))
    if not _has_new_events(live, known, stop):
        return []
    return [event for position, event in with_summaries(live, known) if position < stop]


def _by_interval(
    live: Sequence[Event], known: Sequence[Summary], config: EventsCompactionConfig
) -> list[Event]:
    if config.compaction_interval is None or config.overlap_size is None:
        return []
    done = _last_covered(known)
    fresh = [position for position in _plain(live) if position > done]
    invocations = {live[position].invocation_id for position in fresh} - {""}
    if len(invocations) < config.compaction_interval:
        return []
    stop = _before_open_calls(live, known, len(live))
    if not _has_new_events(live, known, stop):
        return []
    start = _overlap_start(live, fresh[0], config.overlap_size)
    return [live[position] for position in _plain(live) if start <= position < stop]


def _last_covered(known: Sequence[Summary]) -> int:
    """Return the position of the last summarized event."""
    return max((summary.last for summary in known), default=-1)


def _plain(live: Sequence[Event]) -> list[int]:
    """Return the positions of all events but summaries."""
    return [position for position, event in enumerate(live) if event.actions.compaction is None]


def _has_new_events(live: Sequence[Event], known: Sequence[Summary], stop: int) -> bool:
    done = _last_covered(known)
    return any(done < position < stop for position in _plain(live))


def _before_open_calls(live: Sequence[Event], known: Sequence[Summary], stop: int) -> int:
    """Return `stop`, or the position of the first earlier call without a response before `stop`.

    An ordinary call of the last invocation may still get a response. One of an earlier invocation
    never will, and must not block later summaries. Calls that are already summarized do not matter:
    after a late response they are shown again (`visible_history`).
    """
    calls = CallPairs.of(live)
    plain = _plain(live)
    last = live[plain[-1]].invocation_id if plain else ""
    waiting = calls.pending(live) | {
        position for position, _ in calls.unanswered if live[position].invocation_id == last
    }
    done = _last_covered(known)
    while True:
        late = {call for call, response in calls.pairs if call < stop <= response} | waiting
        earliest = min((call for call in late if done < call < stop), default=stop)
        if earliest == stop:
            return stop
        stop = earliest


def _overlap_start(live: Sequence[Event], first_fresh: int, overlap_size: int) -> int:
    """Return where the `overlap_size` invocations before the first new event begin."""
    start = first_fresh
    seen = {live[first_fresh].invocation_id}
    for position in reversed(_plain(live)):
        if position > first_fresh:
            continue
        if live[position].invocation_id not in seen:
            if len(seen) > overlap_size:
                break
            seen.add(live[position].invocation_id)
        start = position
    return start


def _prompt_tokens(live: Sequence[Event], known: Sequence[Summary]) -> int:
    """Return the tokens of the largest prompt since the last summary; an estimate if unreported."""
    counted = 0
    for event in reversed(live):
        if event.actions.compaction is not None:
            break
        usage = event.usage_metadata
        counted = max(counted, (usage.prompt_token_count or 0) if usage else 0)
    return counted or _estimated_tokens([event for _, event in with_summaries(live, known)])


def _estimated_tokens(events: Sequence[Event]) -> int:
    parts = [part for event in events for part in event.parts]
    return sum(map(_characters, parts)) // _CHARACTERS_PER_TOKEN


def _characters(part: types.Part) -> int:
    call, response = part.function_call, part.function_response
    said = (call.args if call else None) or (response.response if response else None)
    return len(part.text or "") + (len(json.dumps(said, default=str)) if said else 0)
