"""The ids of a model's calls, and what is kept of its texts."""

from itertools import pairwise

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.conversation.call_ids import CallIds
from durable_adk.conversation.model_event import save_output
from durable_adk.events import Event

NAMES = st.lists(st.sampled_from([None, "", "a", "b"]), max_size=8)


def calls(names):
    return [types.FunctionCall(id=name, name="f") for name in names]


@given(NAMES, st.lists(st.integers(0, 8), max_size=4))
def test_ids_do_not_depend_on_how_calls_were_cut_into_chunks(names, cuts):
    """FLW-40, FLW-74: all different, equal at every attempt, a provider's own kept once."""
    whole, chunked, ids = calls(names), calls(names), CallIds("e-1.1")
    CallIds("e-1.1").give(whole)
    edges = [0, *sorted(cuts), len(names)]
    for start, end in pairwise(edges):
        ids.give(chunked[start:end])
    given_ids = [call.id for call in whole]
    assert [call.id for call in chunked[: len(names)]] == given_ids
    assert len(set(given_ids)) == len(names)
    assert {name for name in names if name} <= set(given_ids)
    assert all(call.args is None for call in whole), "as the model sent them"


def test_a_call_has_one_id_in_all_its_chunks():
    """FLW-74: of two calls with one id of the provider, the second has another one."""
    ids = CallIds("e-1.1", repeats=True)
    first, second = (
        [types.FunctionCall(id=name, name="tool", args=args) for name in names]
        for names, args in ((["a", "b", "b"], {}), (["a", "b"], {"x": 1}))
    )
    ids.give(first)
    ids.give(second)
    assert [call.id for call in second] == [call.id for call in first[:2]] == ["a", "b"]
    assert first[2].id not in ("a", "b")


def test_ids_of_other_events_are_others():
    """F15: two events whose calls have no id never share one."""
    first, second = calls([None]), calls([None])
    CallIds("e-1.1").give(first)
    CallIds("e-1.2").give(second)
    assert first[0].id != second[0].id


@pytest.mark.parametrize(("text", "saved"), [("done", {"out": "done"}), ("", {})])
def test_an_empty_text_leaves_the_output_key_alone(text: str, saved: dict[str, str]) -> None:
    """AGT-21: what an agent has said before it left a loop is not lost."""
    event = Event(author="a", content=types.ModelContent([types.Part(text=text)]))
    save_output(event, output_key="out", schema=None, before=str)
    assert event.actions.state_delta == saved
