"""The events that still count."""

from hypothesis import given, strategies as st

from durable_adk.conversation.history import CallPairs, not_rewound, recent, visible_history
from durable_adk.events import Event
from durable_adk.sessions.records import GetSessionConfig
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

A, B, C, D = (event("user", word) for word in "abcd")

# --- rewinds --------------------------------------------------------------------------------


def test_a_rewind_hides_from_the_invocation_to_itself():
    """What came before it and what comes after it stays (REW-1)."""
    assert said(visible_history(session([A], [B, C], rewind("i1"), [D]))) == "a d"


def test_rewinds_may_follow_each_other():
    """Each hides from its own invocation on, also across an earlier rewind (REW-1)."""
    twice = session([A], [B], rewind("i1"), [C], rewind("i3"), [D])
    assert said(visible_history(twice)) == "a d"
    across = session([A], [B], [C], rewind("i2"), [D], rewind("i1"))
    assert said(visible_history(across)) == "a"


def test_a_rewind_before_a_rewind_undoes_it():
    """The session is again as it was before it, so what was taken back is there (REW-1)."""
    assert said(visible_history(session([A], [B], rewind("i1"), rewind("i2"), [C]))) == "a b c"
    assert said(visible_history(session([A], [B], [C], rewind("i0"), rewind("i2")))) == "a b"


def test_a_rewind_to_what_is_not_there_means_nothing():
    """An unknown invocation, or one that came only later, or an agent's wish (REW-1)."""
    ignored = [rewind("nope"), rewind("i4"), rewind("i0").model_copy(update={"author": "me"})]
    assert said(visible_history(session([A], *ignored, [B]))) == "a b"


@given(histories(), st.integers(0, 3))
def test_a_rewind_shows_what_was_shown_before(events, number):
    """Whatever happened, summaries and rewinds included, it is as before the invocation (REW-1)."""
    invocation = f"i{number}"
    starts = [i for i, one in enumerate(events) if one.invocation_id == invocation]
    after = session(*events, rewind(invocation).model_copy(update={"invocation_id": "new"}))
    before = events[: starts[0]] if starts else events
    shown = [one for one in visible_history(after) if not one.actions.rewind_before_invocation_id]
    expected = visible_history(before)
    assert shown == [e for e in expected if not e.actions.rewind_before_invocation_id]


def test_summaries_do_not_hide_who_spoke_last():
    """For routing only rewinds count: the events under a summary are there (AGT-41)."""
    events = session([A, event("other", "b")], summary("sum", ids=("e0", "e1")))
    assert said(not_rewound(events)) == "a b"


def test_the_last_of_what_counts_is_recent():
    """Rewound events are no part of the last so many, wherever the rewind goes back to (SSN-6)."""
    events = session([A], [B], [rewind("i1")], [C, D])
    assert said(recent(events, GetSessionConfig())) == "a c d"
    assert said(recent(events, GetSessionConfig(num_recent_events=3))) == "a c d"
    assert said(recent(events, GetSessionConfig(num_recent_events=0))) == ""
    since = GetSessionConfig(after_timestamp=events[3].timestamp)
    assert said(recent(events, since)) == "c d"
    both = since.model_copy(update={"num_recent_events": 1})
    assert said(recent(events, both)) == "d"


# --- summaries ------------------------------------------------------------------------------


def test_a_summary_stands_where_its_events_were():
    """It is shown in their place, and the events themselves are not (CMP-1)."""
    events = session([A], [B, C], [D], summary("sum", ids=("e1", "e2")))
    assert said(visible_history(events)) == "a sum d"
    assert said(events[:4]) == "a b c d"


def test_ids_go_before_timestamps():
    """With tied timestamps only the ids tell what was covered (TRAP-15)."""
    both = summary("sum", ids=("e0", "e2"), times=(0.0, 1.0))
    assert said(visible_history(session([A, B, C, D], both))) == "sum d"


def test_timestamps_do_where_ids_are_missing():
    """A summary as ADK writes it, or of whose events only the end was loaded."""
    by_times = summary("sum", times=(0.0, 0.0))
    assert said(visible_history(session([A, B, C], by_times))) == "sum c"
    loaded = session([A, B, C], summary("sum", ids=("gone", "e1"), times=(-9.0, 0.0)))
    assert said(visible_history(loaded)) == "sum c"
    compaction = {
        "startTimestamp": 0.0,
        "endTimestamp": 0.0,
        "compactedContent": {"parts": [{"text": "sum"}]},
        "fromTheFuture": 1,
    }
    wrote = {"author": "user", "actions": {"compaction": compaction}}
    adk = Event.model_validate(wrote, extra="ignore")
    (shown, _) = visible_history(session([A, B, C], adk))
    assert shown.content
    assert (shown.text, shown.content.role) == ("sum", "model")


def test_what_is_no_summary_hides_nothing():
    """One of unknown events is left out."""
    unknown = summary("sum", ids=("e7", "e9"))
    assert said(visible_history(session([A], unknown, [B]))) == "a b"


def test_a_later_summary_replaces_those_it_covers():
    """Summaries that only overlap are both shown, oldest first (CMP-1)."""
    first = summary("first", ids=("e0", "e1"))
    overlapping = session([A, B], first, [C], summary("second", ids=("e1", "e3")), [D])
    assert said(visible_history(overlapping)) == "first second d"
    covering = session([A, B], first, [C], summary("second", ids=("e0", "e3")), [D])
    assert said(visible_history(covering)) == "second d"


def test_a_pending_call_is_never_summarised_away():
    """The model continues seeing what it waits for (CMP-2)."""
    events = session([A, slow("s"), B], summary("sum", ids=("e0", "e2")))
    assert said(visible_history(events)) == "sum s?"
    answered = session([A, slow("s"), event("user", answer("s"))], summary("sum", ids=("e0", "e2")))
    assert said(visible_history(answered)) == "sum"


def test_a_summary_never_comes_between_call_and_response():
    """Both are shown when one has to be, with all that they are paired with (CMP-2)."""
    calls = event("me", call("x"), call("y"))
    events = session(
        [A, calls, event("me", answer("x")), B],
        summary("sum", ids=("e0", "e3")),
        [event("me", answer("y"))],
    )
    assert said(visible_history(events)) == "sum x? y? x! y!"


def test_a_branch_is_told_nothing_of_its_siblings():
    """There a summary that covers some of them gives way to the events themselves (TRAP-33)."""
    mine, others = event("me", "mine", branch="p.a"), event("other", "others", branch="p.b")
    events = session([A, mine, others], summary("sum", ids=("e0", "e2")), [B])
    assert said(visible_history(events)) == "sum b"
    assert said(visible_history(events, branch="then.a")) == "sum b"
    assert said(visible_history(events, branch="p.a")) == "a mine b"
    alone = session([A, mine], summary("sum", ids=("e0", "e1")), [others, B])
    assert said(visible_history(alone, branch="p.a")) == "sum b"


# --- any history ----------------------------------------------------------------------------


@given(histories())
def test_no_pair_is_split(events):
    """A call and its response are both shown or both not, and pending calls are (CMP-2)."""
    live = not_rewound(events)
    shown = {one.id for one in visible_history(events) if not one.actions.compaction}
    calls = CallPairs.of(live)
    for caller, answered in calls.pairs:
        assert (live[caller].id in shown) == (live[answered].id in shown)
    assert all(live[position].id in shown for position in calls.pending(live))


@given(histories(), st.sampled_from([None, "p.a"]))
def test_what_is_shown_is_in_order_and_unchanged(events, branch):
    """It is a subsequence of the history and of summaries, and the events are as they were."""
    before = [one.model_copy(deep=True) for one in events]
    shown = visible_history(events, branch=branch)
    plain = [one for one in shown if not one.actions.compaction]
    left = iter(events)
    assert all(one in left for one in plain)
    assert events == before
    assert shown == visible_history(events, branch=branch)
