"""Several calls' responses as one event (FLW-43..45, TRAP-25)."""

from typing import Any

from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.conversation.tool_responses import (
    closing_responses,
    error_response,
    merge_responses,
)
from durable_adk.events import Event, EventActions

keys = st.sampled_from(["a", "b", "user:c", "app:d"])
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
values = st.recursive(scalars, lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=4)


@st.composite
def responses(draw: st.DrawFn) -> list[Event]:
    """One response per call, with whatever its tool has changed."""
    events: list[Event] = []
    for index in range(draw(st.integers(1, 4))):
        answer = types.FunctionResponse(id=f"c{index}", name="t", response={"n": index})
        actions = EventActions(
            state_delta=draw(st.dictionaries(keys, values, max_size=3)),
            artifact_delta=draw(st.dictionaries(keys, st.integers(0, 9), max_size=2)),
            escalate=draw(st.none() | st.just(True)),
            skip_summarization=draw(st.none() | st.just(True)),
            transfer_to_agent=draw(st.none() | st.sampled_from(["x", "y"])),
        )
        content = types.Content(role="user", parts=[types.Part(function_response=answer)])
        events.append(Event(author="agent", branch="b", content=content, actions=actions))
    return events


def folded(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """What the deltas come to when they are laid over each other, dict into dict."""
    result: dict[str, Any] = {}
    for delta in deltas:
        for key, value in delta.items():
            old = result.get(key)
            both = isinstance(old, dict) and isinstance(value, dict)
            result[key] = folded([old, value]) if both else value
    return result


@given(responses())
def test_the_merged_event_has_every_response_in_the_order_of_the_calls(events: list[Event]) -> None:
    """FLW-43, FLW-44, I9."""
    merged = merge_responses(events, event_id="e.1")
    assert [item.id for item in merged.get_function_responses()] == [
        f"c{index}" for index in range(len(events))
    ]
    assert (merged.id, merged.author, merged.branch) == ("e.1", "agent", "b")


@given(responses())
def test_no_change_is_lost_and_a_later_call_wins(events: list[Event]) -> None:
    """FLW-45: scalars in call order, dicts key by key; flags are taken when set."""
    merged = merge_responses(events, event_id="e.1").actions
    assert merged.state_delta == folded([event.actions.state_delta for event in events])
    assert merged.artifact_delta == folded([event.actions.artifact_delta for event in events])
    assert bool(merged.escalate) is any(event.actions.escalate for event in events)
    named = [event.actions.transfer_to_agent for event in events]
    assert merged.transfer_to_agent == next(filter(None, reversed(named)), None)


@given(responses())
def test_merging_changes_none_of_the_events(events: list[Event]) -> None:
    """TRAP-23, TRAP-4: the merged event shares nothing with its sources."""
    before = [event.model_dump(mode="json") for event in events]
    merged = merge_responses(events, event_id="e.1")
    for value in merged.actions.state_delta.values():
        if isinstance(value, dict):
            value["changed"] = True
    merged.actions.state_delta["new"] = 1
    assert [event.model_dump(mode="json") for event in events] == before


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), max_size=4))
def test_every_open_call_gets_one_response_and_no_other_does(turns: list[list[bool]]) -> None:
    """CAN-2, TRAP-47: whatever was answered before; sealing twice adds nothing."""
    events: list[Event] = []
    for number, turn in enumerate(turns):
        calls = [types.FunctionCall(id=f"{number}.{i}", name="t") for i in range(len(turn))]
        parts = [types.Part(function_call=call) for call in calls]
        events.append(
            Event(id=f"e.{number}", author="a", content=types.Content(role="model", parts=parts))
        )
        events += [
            error_response(call.id or "", "t", "done", author="a", branch=None)
            for call, answered in zip(calls, turn, strict=True)
            if answered
        ]
    seals = closing_responses(events, "ended")
    sealed = [item.id for seal in seals for item in seal.get_function_responses()]
    expected = [
        f"{number}.{i}"
        for number, turn in enumerate(turns)
        for i, answered in enumerate(turn)
        if not answered
    ]
    assert sealed == expected
    assert closing_responses([*events, *seals], "ended") == []
