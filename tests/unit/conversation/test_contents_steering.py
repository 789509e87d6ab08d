"""What an agent's model is shown of messages that were delivered in the middle of its run (D7)."""

import itertools

from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.conversation.contents import build_contents
from durable_adk.events import Event
from tests.support.histories import answer, call, event, histories
from tests.unit.conversation.test_contents import shown

HI = event("user", "hi", id="i.0", invocation_id="i")
HEARD = event("user", "and blue", id="m.0", invocation_id="i")


def of_run(author: str, *parts: object, **fields: object) -> Event:
    """An event of the same invocation."""
    return event(author, *parts, invocation_id="i", **fields)


def test_the_current_turn_begins_before_what_is_heard_in_it() -> None:
    """AGT-17: with include_contents="none" the agent still has what it was asked, and has done."""
    events = [
        event("user", "old", id="o.0", invocation_id="o"),
        HI,
        of_run("me", call("a")),
        of_run("me", answer("a")),
        HEARD,
    ]
    expected = ["user: hi", "model: call(a)", "user: answer(a)=0", "user: and blue"]
    assert shown(*events, include_contents="none") == expected


def test_a_message_between_a_call_and_its_response_comes_behind_both() -> None:
    """FLW-25: another branch got it while the tool ran; nothing has been said to it."""
    events = [HI, of_run("me", call("a")), HEARD, of_run("me", answer("a"))]
    expected = ["user: hi", "model: call(a)", "user: answer(a)=0", "user: and blue"]
    assert shown(*events) == expected


def test_a_message_before_a_late_answer_is_not_forgotten() -> None:
    """FLW-25, FLW-50: the answer resumes the turn of its call, and the message is of that turn."""
    events = [
        HI,
        of_run("me", call("a"), long_running_tool_ids={"a"}),
        HEARD,
        of_run("me", "I wait"),
        of_run("user", answer("a", 1)),
    ]
    assert shown(*events) == [
        "user: hi",
        "model: call(a)",
        "user: answer(a)=1",
        "user: and blue",
    ]


def test_a_message_that_opened_an_invocation_is_hidden_before_a_late_answer() -> None:
    """FLW-25: that is another turn, which has its own answer."""
    events = [
        HI,
        of_run("me", call("a"), long_running_tool_ids={"a"}),
        event("user", "other", id="m.0", invocation_id="m"),
        event("me", "answered", invocation_id="m"),
        of_run("user", answer("a", 1)),
    ]
    assert shown(*events) == ["user: hi", "model: call(a)", "user: answer(a)=1"]


def test_the_current_turn_may_begin_with_another_agents_message_before_what_is_heard() -> None:
    """AGT-17: in a sequence the agent has what the one before it said, and what came since."""
    events = [HI, of_run("other", "draft"), HEARD]
    first, second = shown(*events, include_contents="none")
    assert "draft" in first
    assert second == "user: and blue"


def test_what_a_custom_agent_says_for_the_user_begins_a_turn() -> None:
    """AGT-17: as in ADK; it was said by the invocation itself, and was not delivered."""
    events = [HI, of_run("me", "x"), of_run("user", "now this", id="i.3")]
    assert shown(*events, include_contents="none") == ["user: now this"]


@given(histories(), st.data(), st.sampled_from(["default", "none"]))
def test_what_is_heard_anywhere_parts_no_call_from_its_response(
    events: list[Event], data: st.DataObject, mode: str
) -> None:
    """TRAP-47, FLW-25: with it a prompt has the same calls and responses, each beside the other."""
    place = data.draw(st.integers(0, len(events)))
    number = data.draw(st.integers(0, 3))
    heard = event("user", "HEARD", id="m.0", invocation_id=f"i{number}")
    contents = build_contents(
        [*events[:place], heard, *events[place:]],
        agent_name="me",
        branch=None,
        include_contents=mode,
    )
    pending = any(one.long_running_tool_ids for one in events)
    empty = types.Content(parts=[])
    for content, after in itertools.pairwise([empty, *contents, empty]):
        asked = [p.function_call.id for p in content.parts or [] if p.function_call]
        answers = [p.function_response.id for p in after.parts or [] if p.function_response]
        assert all(one in asked for one in answers)
        assert len(asked) == len(answers) or pending
