"""An event is rendered once: what is kept for the next step shows what a new rendering shows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.conversation import contents
from durable_adk.conversation.contents import MAX_VIEWS, KeptContents, build_contents
from durable_adk.events import Event
from tests.support.histories import answer, call, event, histories, session, slow, summary

EXTRA = [types.Content(role="user", parts=[types.Part(text="by the way")])]


@given(
    histories(),
    st.fixed_dictionaries(
        {
            "branch": st.sampled_from([None, "p.a"]),
            "agent_name": st.sampled_from(["me", "other"]),
            "include_contents": st.sampled_from(["default", "none"]),
            "model_input_context": st.sampled_from([None, EXTRA]),
        }
    ),
    st.lists(st.integers(0, 12), max_size=4),
)
def test_what_is_kept_shows_the_same(events, options, steps):
    """FLW-21 to 29, REW-1, CMP-2: after any steps, also one that lags behind another."""
    kept = KeptContents()
    for revision in [*steps, len(events)]:
        seen = events[:revision]
        assert build_contents(seen, kept=kept, **options) == build_contents(seen, **options)


def test_a_response_to_a_call_that_a_summary_hides_shows_it_again():
    """CMP-2: a call that was answered before the summary is answered once more."""
    before = session(event("user", "hi"), slow("a"), event("me", answer("a")), event("me", "ok"))
    after = (event("user", "go"), event("user", answer("a", 2)))
    later = session(*before, summary("short", ids=("e0", "e3")), *after)
    kept = KeptContents()
    build_contents(later[:-1], agent_name="me", branch=None, kept=kept)
    shown = build_contents(later, agent_name="me", branch=None, kept=kept)
    assert shown == build_contents(later, agent_name="me", branch=None)
    assert any(part.function_call for content in shown for part in content.parts or ())


def steps_of_a_turn(number: int) -> Iterator[Event]:
    """The events of so many tool steps."""
    yield event("user", "go")
    for step in range(number):
        yield event("me", call(f"adk-{step}", deep=[1]))
        yield event("me", answer(f"adk-{step}"))


@pytest.mark.parametrize("mode", ["default", "none"])
def test_each_event_is_rendered_once(mode, monkeypatch: pytest.MonkeyPatch):
    """D10, I14: at step 1,000 no more turns are rendered than at step 1."""
    rendered: list[int] = []
    real = contents._rendered
    monkeypatch.setattr(contents, "_rendered", lambda turn: rendered.append(1) or real(turn))
    events, kept = list(steps_of_a_turn(200)), KeptContents()
    for revision in range(1, len(events) + 1, 2):
        rendered.clear()
        build_contents(
            events[:revision], agent_name="me", branch=None, include_contents=mode, kept=kept
        )
        assert len(rendered) <= 3


CHANGES: dict[str, Callable[[list[types.Content]], Any]] = {
    "the list": lambda got: got.clear(),
    "parts": lambda got: got[0].parts.clear(),
    "a text": lambda got: setattr(got[0].parts[0], "text", "changed"),
    "a role": lambda got: setattr(got[0], "role", "model"),
    "arguments": lambda got: got[1].parts[0].function_call.args["deep"].append(2),
    "a name": lambda got: setattr(got[1].parts[0].function_call, "name", "other"),
    "a response": lambda got: got[2].parts[0].function_response.response.clear(),
    "fields": lambda got: vars(got[2]).clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_request_is_not_kept(change: str):
    """FLW-27, TRAP-23: neither in the events nor in the next request."""
    events, same, kept = list(steps_of_a_turn(3)), list(steps_of_a_turn(3)), KeptContents()
    for revision in (5, 5, 7):
        got = build_contents(events[:revision], agent_name="me", branch=None, kept=kept)
        assert got == build_contents(same[:revision], agent_name="me", branch=None)
        CHANGES[change](got)
    assert events == same


def test_views_are_bounded_and_counted():
    """I22: the least recently used view goes, and nothing counts when all have gone."""
    events, kept = list(steps_of_a_turn(50)), KeptContents()
    sizes = []
    for number in range(MAX_VIEWS * 2):
        build_contents(events, agent_name=f"a{number}", branch=None, kept=kept)
        sizes.append(kept.bytes)
    assert sizes[MAX_VIEWS - 1] > sizes[0] * (MAX_VIEWS - 1)
    assert sizes[-1] < sizes[MAX_VIEWS - 1] * 1.1
    kept.clear()
    assert kept.bytes == 0


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
