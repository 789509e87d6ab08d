"""Of a long history only its end is looked at where only the current turn is shown (AGT-17)."""

from typing import Any
from unittest.mock import patch

from hypothesis import given, strategies as st

from durable_adk.conversation import contents
from durable_adk.conversation.contents import build_contents
from tests.support.histories import answer, call, event, histories, session


def plain(events):
    """Without rewinds and summaries, for which all has to be looked at."""
    return [event for event in events if not contents._changes_history(event)]


@given(
    st.one_of(histories(), histories().map(plain)),
    st.sampled_from([None, "p.a"]),
    st.sampled_from(["me", "other"]),
    st.integers(1, 4),
)
def test_the_end_of_a_history_shows_the_same_as_all_of_it(events, branch, agent_name, last):
    """AGT-17, FLW-25, TRAP-47: however little is looked at first."""
    options = {"agent_name": agent_name, "branch": branch, "include_contents": "none"}
    with patch.object(contents, "_LAST", 10**9):
        whole = build_contents(events, **options)
    with patch.object(contents, "_LAST", last):
        assert build_contents(events, **options) == whole


def test_a_late_answer_is_shown_with_its_call_however_long_ago_that_was():
    """FLW-25: a window that ends between the two is not enough."""
    events = session(
        event("user", "hi"),
        event("me", call("a"), long_running_tool_ids={"a"}),
        *(event(author, "more") for author in ["user", "me"] * 100),
        event("user", answer("a", 3)),
    )
    shown = build_contents(events, agent_name="me", branch=None, include_contents="none")
    assert [len(content.parts) for content in shown] == [1, 1, 1]
    assert shown[0].parts[0].text == "hi"
    assert shown[2].parts[0].function_response.response == {"v": 3}


def test_a_long_turn_costs_as_much_as_a_short_one():
    """D10, I14: at step 1,000 no more events are made contents, or touched, than at step 100."""
    looked_at = []
    select = contents._select

    def counted(events, *args):
        listed = list(events)
        looked_at.append(len(listed))
        return select(listed, *args)

    for steps in (100, 1_000):
        asks = [event("user", f"do {step}") for step in range(steps)]
        does = [event("me", call(f"c{step}")) for step in range(steps)]
        done = [event("me", answer(f"c{step}")) for step in range(steps)]
        turns = [part for step in zip(asks, does, done, strict=True) for part in step]
        events: list[Any] = session(*turns)
        events[: -contents._LAST] = [object()] * (len(events) - contents._LAST)
        with patch.object(contents, "_select", counted):
            shown = build_contents(events, agent_name="me", branch=None, include_contents="none")
        assert len(shown) == 3
    assert looked_at == [contents._LAST] * 2
