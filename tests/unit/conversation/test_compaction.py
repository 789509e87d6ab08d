"""When a summary is due, and for what."""

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.apps.compaction import EventsCompactionConfig
from durable_adk.conversation.compaction import events_to_compact, summary_event
from durable_adk.conversation.history import CallPairs, not_rewound, visible_history
from durable_adk.events import Event
from durable_adk.events.event_compaction import compaction_event
from tests.support.histories import (
    answer,
    call,
    event,
    histories,
    rewind,
    said,
    session,
    slow,
    summary,
)


def every(interval: int, overlap: int = 0) -> EventsCompactionConfig:
    return EventsCompactionConfig(compaction_interval=interval, overlap_size=overlap)


def above(threshold: int, keep: int = 0) -> EventsCompactionConfig:
    return EventsCompactionConfig(token_threshold=threshold, event_retention_size=keep)


def turn(words: str, tokens: int | None = None) -> list[Event]:
    """What the user and the agent say in one invocation: `a A`."""
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens)
    return [event("user", words), event("me", words.upper(), usage_metadata=usage)]


def due(events: list[Event], config: EventsCompactionConfig) -> str:
    """The window in short."""
    return said(events_to_compact(events, config))


def summarised(events: list[Event], config: EventsCompactionConfig, words="sum") -> list[Event]:
    """The session after the summary that is due was appended."""
    content = types.Content(role="model", parts=[types.Part(text=words)])
    return session(*events, compaction_event(events_to_compact(events, config), content))


# --- by interval ----------------------------------------------------------------------------


def test_a_summary_is_due_after_so_many_invocations():
    """Counted are those since the last summary; before them come those of the overlap (CMP-1)."""
    events = session(turn("a"))
    assert due(events, every(2, 1)) == ""
    events = session(*events, turn("b"))
    assert due(events, every(2, 1)) == "a A b B"
    events = session(*summarised(events, every(2, 1), "first"), turn("c"))
    assert due(events, every(2, 1)) == ""
    events = session(*events, turn("d"))
    assert due(events, every(2, 0)) == "c C d D"
    assert due(events, every(2, 1)) == "b B c C d D"
    assert due(events, every(2, 9)) == "a A b B c C d D"
    assert said(visible_history(summarised(events, every(2, 1), "second"))) == "first second"


def test_events_of_no_invocation_do_not_count():
    """What was appended from outside is summarised with its neighbours, but triggers nothing."""
    events = [*session(turn("a")), event("user", "x")]
    assert due(events, every(2)) == ""
    assert due(events, every(1)) == "a A x"


def test_what_was_rewound_is_not_summarised():
    """It is gone for the models, so it must not come back in a summary (REW-1)."""
    events = session(turn("a"), turn("b"), rewind("i1"), turn("c"))
    assert due(events, every(2)) == "a A c C"


# --- by tokens ------------------------------------------------------------------------------


def test_a_summary_is_due_above_a_number_of_tokens():
    """All but the last events are due, and an earlier summary is replaced (CMP-1)."""
    events = session(turn("a", 10), turn("b", 30))
    assert due(events, above(31)) == ""
    assert due(events, above(30)) == "a A b B"
    assert due(events, above(30, 2)) == "a A"
    assert due(events, above(30, 9)) == ""
    events = summarised(events, above(30, 2), "first")
    assert said(visible_history(events)) == "first b B"
    assert due(events, above(30)) == ""
    events = session(*events, *turn("c", 40))
    assert due(events, above(30, 1)) == "first b B c"
    assert said(visible_history(summarised(events, above(30, 1), "second"))) == "second C"


def test_tokens_are_guessed_where_no_model_counts_them():
    """Four characters a token, of what is shown since the last summary (CMP-1)."""
    events = session([event("user", "x" * 400), event("me", call("a", q="y" * 400))])
    assert due(events, above(190))
    assert due(events, above(210)) == ""


def test_tokens_come_first():
    """With both triggers met, one summary is made: that of the tokens (CMP-1)."""
    both = EventsCompactionConfig(
        compaction_interval=1, overlap_size=0, token_threshold=30, event_retention_size=3
    )
    assert due(session(turn("a", 10), turn("b", 30)), both) == "a"
    assert due(session(turn("a", 10), turn("b", 20)), both) == "a A b B"


# --- never between a call and its response --------------------------------------------------


def test_a_window_ends_before_a_pending_call():
    """What waits for an answer is not summarised, nor is what came after it (CMP-2)."""
    events = session(turn("a"), [event("user", "b"), slow("s")], turn("c"))
    assert due(events, every(2)) == "a A b"
    events = summarised(events, every(2))
    assert due(events, every(1)) == ""
    answered = session(*events, event("user", answer("s")), event("me", "done"))
    assert due(answered, every(1)) == "b s? c C s! done"


def test_a_pending_call_under_a_summary_holds_nothing_up():
    """ADK may have summarised it; it is shown all the same, so what follows may go (CMP-2)."""
    events = session([event("user", "a"), slow("s")], summary("sum", ids=("e0", "e1")), turn("b"))
    assert due(events, every(1)) == "b B"


def test_a_window_ends_before_a_pair_that_it_would_split():
    """The retained events keep the calls that they answer (CMP-2)."""
    pair = [event("me", call("x")), event("me", answer("x"))]
    events = session([*turn("a", 99), *pair], turn("b"))
    assert due(events, above(1, 3)) == "a A"
    assert due(events, above(1, 2)) == "a A x? x!"
    crossing = [event("me", call("x")), slow("s"), event("me", answer("x"))]
    assert due(session(turn("a"), crossing), every(2)) == "a A"


def test_a_call_that_never_will_be_answered_holds_nothing_up():
    """An ordinary call without response, of an invocation that is over, is summarised away."""
    events = session([event("me", call("x"))], turn("b"))
    assert due(events, every(1)) == "x? b B"
    assert due(events[:1], every(1)) == ""


_CONFIGS = st.builds(every, st.integers(1, 3), st.integers(0, 2)) | st.builds(
    above, st.integers(1, 4), st.integers(0, 4)
)


@given(histories(), _CONFIGS)
def test_a_window_splits_no_pair_and_holds_nothing_pending(events, config):
    """Of what no summary covers yet, pairs are in it whole or not at all (CMP-2)."""
    covered = events_to_compact(events, config)
    before = {one.id for one in visible_history(events) if not one.actions.compaction}
    inside = {one.id for one in covered if not one.actions.compaction}
    live = not_rewound(events)
    calls = CallPairs.of(live)
    for pair in calls.pairs:
        caller, response = (live[position].id for position in pair)
        if inside and {caller, response} <= before - earlier(live, inside):
            assert (caller in inside) == (response in inside)
    new = {live[p].id for p in calls.pending(live)} - earlier(live, inside)
    assert not new & inside


def earlier(live: list[Event], inside: set[str]) -> set[str]:
    """Ids of the events at or before the last summarised one."""
    ids = [one.id for one in live]
    lasts = [span[1] for one in visible_history(live) if (span := one.compacted_event_ids)]
    lasts += [span[1] for one in live if (span := one.compacted_event_ids)]
    last = max((ids.index(i) for i in lasts if i in ids), default=-1)
    return set(ids[: last + 1])


@given(histories(), _CONFIGS)
def test_summarising_comes_to_an_end(events, config):
    """Each window holds something new, so without new events at most a few are due."""
    for _ in range(len(events) + 1):
        covered = events_to_compact(events, config)
        if not covered:
            break
        content = types.Content(role="model", parts=[types.Part(text=".")])
        events = session(*events, compaction_event(covered, content))
    assert not events_to_compact(events, config)


@given(histories())
def test_a_summary_by_tokens_replaces_all_it_stands_for(events):
    """After it, what it covers is shown no more, but for what is paired or pending (CMP-1)."""
    covered = events_to_compact(events, above(1, 1))
    if covered:
        after = summarised(events, above(1, 1))
        first = visible_history(after)[0]
        assert said([first]) == "sum"
        assert sum(one.actions.compaction is not None for one in visible_history(after)) == 1


# --- what a summarizer made -----------------------------------------------------------------


def test_a_summary_stands_for_exactly_the_window():
    """Whatever stretch a summarizer named, the ids of the window decide (TRAP-15)."""
    events = session(turn("a"), turn("b"))
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=7)
    made = summary("sum", times=(-5.0, 99.0)).model_copy(update={"usage_metadata": usage})
    done = summary_event(made, events_to_compact(events, every(2)))
    assert done
    stretch = done.actions.compaction
    assert stretch
    assert done.compacted_event_ids == ["e0", "e3"]
    assert (stretch.start_timestamp, stretch.end_timestamp) == (0.0, 1.0)
    assert (done.author, done.usage_metadata, done.content) == ("user", usage, None)


@pytest.mark.parametrize(
    "part",
    [
        types.Part(text=""),
        types.Part(text=" \n"),
        types.Part(text="About?", thought=True),
        types.Part(),
    ],
)
def test_a_blank_summary_replaces_nothing(part):
    """Neither is one stored, nor does one that is stored stand for its events."""
    content = types.Content(role="model", parts=[part])
    events = session(turn("a"))
    blank = compaction_event(events_to_compact(events, every(1)), content)
    assert summary_event(blank, events) is None
    assert said(visible_history(session(*events, blank))) == said(events)


def test_an_event_without_summary_is_none():
    """A summarizer that made nothing of it appends nothing (CMP-1)."""
    covered = events_to_compact(session(turn("a")), every(1))
    assert summary_event(event("me", "words"), covered) is None
    empty = summary("x")
    assert empty.actions.compaction
    empty.actions.compaction.compacted_content = types.Content(role="model")
    assert summary_event(empty, covered) is None
