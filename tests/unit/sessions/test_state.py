"""State: every change, in place or not, ends up in the delta."""

import copy
import json

import pytest
from hypothesis import given, strategies as st

from durable_adk.errors import StateValueError
from durable_adk.json_values import MAX_KEY
from durable_adk.sessions.state import State, is_temp, without_temp

KEYS = st.sampled_from(["a", "b", "app:a", "user:a", "temp:a"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | st.text("xyz", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("kl"), inner, max_size=3),
    max_leaves=6,
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["set", "read", "mutate", "update", "setdefault", "collect"]), KEYS, VALUES
    ),
    max_size=20,
)


def mutate(value, addition):
    """Change a list or dict in place; leave other values alone."""
    if isinstance(value, list):
        value.append(addition)
    elif isinstance(value, dict):
        value["k"] = addition


def step(state, verb, key, value):
    match verb:
        case "set":
            state[key] = value
        case "read":
            state.get(key)
        case "mutate":
            mutate(state.get(key), copy.deepcopy(value))
        case "update":
            state.update({key: value})
        case "setdefault":
            mutate(state.setdefault(key, value), 1)
        case _:
            state.collect_delta()


@given(st.dictionaries(KEYS, VALUES), STEPS)
def test_fold_of_deltas_equals_state(start, steps):
    """Whatever is done to a state, the start and the collected delta make what readers see."""
    before = copy.deepcopy(start)
    state = State(start, {})
    for verb, key, value in steps:
        step(state, verb, key, copy.deepcopy(value))
    delta = json.loads(json.dumps(state.collect_delta()))
    assert before | delta == state.to_dict()


@given(st.dictionaries(KEYS, VALUES))
def test_reading_is_no_change(start):
    """Reading everything leaves the delta empty."""
    state = State(copy.deepcopy(start), {})
    assert state.to_dict() == start
    assert [state[key] for key in state] == list(start.values())
    assert not state.has_delta()


@pytest.mark.parametrize(
    "read",
    [
        lambda state: state["l"],
        lambda state: state.get("l"),
        lambda state: state.setdefault("l", []),
        lambda state: state.to_dict()["l"],
        lambda state: next(state[key] for key in state if key == "l"),
    ],
)
def test_change_in_place_is_found(read):
    """A nested list changed in place rides on the delta, however it was reached (STA-10)."""
    state = State({"l": {"inner": [1]}}, {})
    read(state)["inner"].append(2)
    assert state.collect_delta() == {"l": {"inner": [1, 2]}}


def test_change_after_set_is_found():
    """A list that was set and then changed is collected as it is at the end."""
    value, delta = {}, {}
    state = State(value, delta)
    mine = [1]
    state["l"] = mine
    mine.append(2)
    assert state["l"] == value["l"] == [1, 2]
    assert state.collect_delta() == delta == {"l": [1, 2]}


def test_collected_delta_is_independent():
    """Working on with a value does not change a delta that an event has carried away (TRAP-52)."""
    value: dict = {}
    first = State(value, {})
    first["l"] = [1]
    event_delta = first.collect_delta()
    second = State(value, {})
    second["l"].append(2)
    assert event_delta == {"l": [1]}
    assert second.collect_delta() == {"l": [1, 2]}


def test_write_of_others_is_not_repeated():
    """A key that only someone else replaced in the value is not in our delta (STA-19)."""
    value = {"l": [1]}
    state = State(value, {})
    assert state["l"] == [1]
    value["l"] = [1, 2]
    assert state.collect_delta() == {}


def test_delta_is_read_first():
    """A key in the delta hides the value's, also when it was written there directly (STA-9)."""
    delta = {"a": 1}
    state = State({"a": 0, "b": 0}, delta)
    assert (state["a"], "a" in state, len(state)) == (1, True, 2)
    state["b"] = 2
    delta["b"] = 3
    assert state["b"] == 3


def test_missing_keys():
    """A missing key raises KeyError by index and gives the default by get."""
    state = State({}, {})
    assert state.get("x", 7) == 7
    with pytest.raises(KeyError):
        state["x"]


@pytest.mark.parametrize("bad", [{1}, (1,), b"x", float("nan"), {1: 2}, object(), "\ud800", "\x00"])
def test_bad_value_is_named_where_written(bad):
    """A value that is not JSON is refused at the assignment, and nothing is changed (TRAP-21)."""
    state = State({}, {})
    with pytest.raises(StateValueError, match=r"state\['k'\]\['deep'\]"):
        state["k"] = {"deep": bad}
    with pytest.raises(StateValueError):
        state.update({"good": 1, "k": bad})
    assert not state.has_delta()
    assert state.to_dict() == {}


@pytest.mark.parametrize("bad", [{1}, float("inf"), {1: 2, "a": 3}])
@pytest.mark.parametrize("start", [{"k": [0]}, {}])
def test_bad_change_in_place_is_refused(start, bad):
    """A value made un-JSON in place, whether read or just set, is refused when collected."""
    state = State(start, {})
    state.setdefault("k", [0]).append(bad)
    with pytest.raises(StateValueError, match=r"state\['k'\]\[1\]"):
        state.collect_delta()


def test_a_key_that_no_index_can_hold_is_named_where_it_is_made():
    """I13: not when its event is committed, where no tool sees it any more."""
    state = State({}, {})
    with pytest.raises(StateValueError, match="1000 bytes"):
        state["\u00e9" * (MAX_KEY // 2 + 1)] = 1
    state["x" * MAX_KEY] = 1
    assert len(state.collect_delta()) == 1


def test_key_must_be_text():
    """A key that is no string, or not storable, is refused (STA-8)."""
    for key in (1, None, "\x00"):
        with pytest.raises(StateValueError):
            State({}, {})[key] = 1


def test_temp_is_not_stored():
    """Only the `temp:` prefix makes a key temporary (STA-4)."""
    assert [is_temp(key) for key in ("temp:a", "temporary", "user:temp:a")] == [True, False, False]
    assert without_temp({"temp:a": 1, "app:b": None}) == {"app:b": None}
