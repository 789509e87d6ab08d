"""Changes of state that were made at the same time are merged, and none is lost."""

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from durable_adk.errors import StateConflictError
from durable_adk.json_values import canonical
from durable_adk.sessions.state import State
from durable_adk.sessions.state_merge import MAX_BASE, MISSING, base_of, merged, together

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("xy", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("kl"), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.lists(st.sampled_from("abc"), max_size=5)
COUNTS = st.recursive(
    st.integers(-9, 9), lambda inner: st.dictionaries(st.sampled_from("kl"), inner, max_size=2)
)


def merge(base: Any, current: Any, written: Any) -> Any:
    """Merge one value."""
    stored = {} if current is MISSING else {"k": current}
    return merged(stored, {"k": written}, {"k": base_of(base, written)})["k"]


def outcome(base: Any, current: Any, written: Any) -> str:
    """The merge as text, or that there is none."""
    try:
        return canonical(merge(base, current, written))
    except StateConflictError:
        return "conflict"


@given(st.just(MISSING) | VALUES, VALUES)
def test_a_side_that_changed_nothing_changes_nothing(base: Any, value: Any) -> None:
    """Whatever the values are, the merge is the value of the other side."""
    assert outcome(base, base, value) == canonical(value)
    if base is not MISSING:
        assert outcome(base, value, base) == canonical(value)


@given(ITEMS, ITEMS, ITEMS)
def test_both_additions_follow_the_list_in_order(base: Any, one: Any, other: Any) -> None:
    """The stored addition is first, and nothing is taken for the same because it is equal."""
    assert merge(base, base + one, base + other) == base + one + other
    assert merge(MISSING, one, other) == one + other or not (one and other)


@given(ITEMS, ITEMS, ITEMS)
def test_a_list_that_is_not_only_extended_is_a_conflict(base: Any, one: Any, other: Any) -> None:
    """It is ambiguous which of equal items was meant, and whether equal changes are one or two."""
    extended = all(side[: len(base)] == base for side in (one, other))
    if not extended and base not in (one, other):
        assert outcome(base, one, other) == "conflict"


@given(st.integers(), st.integers(), st.integers())
def test_counts_add_up(base: int, more: int, other: int) -> None:
    """Both differences count, equal ones too."""
    assert merge(base, base + more, base + other) == base + more + other


@given(st.dictionaries(st.sampled_from("kl"), COUNTS), st.data())
def test_the_order_is_of_no_matter_for_dicts_and_counts(base: Any, data: st.DataObject) -> None:
    """Either side may be stored first: the result, or the conflict, is the same."""
    one, other = (data.draw(st.dictionaries(st.sampled_from("klm"), COUNTS)) for _ in range(2))
    assert outcome(base, one, other) == outcome(base, other, one)


@given(st.just(MISSING) | VALUES, VALUES, VALUES)
def test_a_merge_changes_none_of_its_values(base: Any, one: Any, other: Any) -> None:
    """TRAP-4: they are the loop's and the user's."""
    before = [None if v is MISSING else copy.deepcopy(v) for v in (base, one, other)]
    outcome(base, one, other)
    assert before == [None if v is MISSING else v for v in (base, one, other)]


@pytest.mark.parametrize(
    ("base", "one", "other", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1, "b": 2}, {"c": 3}, {"b": 2, "c": 3}, id="keys"),
        pytest.param({}, {"d": {"x": [1]}}, {"d": {"x": [2]}}, {"d": {"x": [1, 2]}}, id="nested"),
        pytest.param("old", "new", "new", "new", id="the same text"),
        pytest.param(MISSING, 1, 1, 2, id="a count that did not exist"),
        pytest.param(None, 1, 2, 3, id="a count that was None"),
        pytest.param(0.5, 1.5, 1.0, 2.0, id="fractions"),
    ],
)
def test_what_can_be_merged_is(base: Any, one: Any, other: Any, expected: Any) -> None:
    """Kinds that meet in real state."""
    assert merge(base, one, other) == expected


@pytest.mark.parametrize(
    ("base", "one", "other"),
    [
        pytest.param("old", "one", "other", id="texts"),
        pytest.param(False, True, "other", id="kinds"),
        pytest.param(MISSING, 1.5, 2.5, id="times"),
        pytest.param({"a": "x"}, {}, {"a": "y"}, id="removed and changed"),
        pytest.param(["a", "b"], ["a"], ["a", "b", "c"], id="removed and extended"),
        pytest.param([{"n": 1}], [{"n": 2}], [{"n": 3}], id="counts in a list"),
        pytest.param([{"n": 1}], [{"n": 2}], [{"n": 2}], id="equal counts in a list"),
        pytest.param(["a", "b"], ["b"], ["b"], id="equal removals"),
        pytest.param(["a", "b"], ["b"], ["a"], id="different removals"),
        pytest.param(-1e308, 1e308, 1.1e308, id="beyond all numbers"),
    ],
)
def test_what_cannot_be_merged_names_its_key(base: Any, one: Any, other: Any) -> None:
    """Neither side is dropped without a word."""
    with pytest.raises(StateConflictError, match="state\\['k'\\]") as failure:
        merge(base, one, other)
    assert failure.value.key == "k"


def test_a_write_without_a_read_replaces() -> None:
    """It depends on nothing, so it is the same as if it had come later."""
    assert merged({"k": "stored"}, {"k": "written"}, {}) == {"k": "written"}
    assert together({"k": 1}, {"k": [0]}, {"k": 5}, {}) == ({"k": 5}, {})
    assert together({"k": ["a"]}, {}, {"k": ["b"]}, {"k": []}) == ({"k": ["a", "b"]}, {})
    with pytest.raises(StateConflictError):  # the other one had read what is replaced
        together({"k": []}, {}, {"k": ["a", "b"]}, {"k": [["a"]]})


@given(ITEMS, ITEMS, ITEMS, ITEMS)
def test_deltas_merged_first_are_stored_as_one_by_one(
    base: Any, one: Any, other: Any, third: Any
) -> None:
    """The calls of a turn are merged by the loop, what others have written by the store."""
    deltas = [({"k": base + each}, {"k": base_of(base, base + each)}) for each in (one, other)]
    delta, read = together(*deltas[0], *deltas[1])
    stored = {"k": base + third}
    at_once = merged(stored, delta, read)
    for each in deltas:
        stored = merged(stored, *each)
    assert at_once == stored


def test_a_large_list_that_was_extended_is_still_merged() -> None:
    """Its base is named by length and digest, which is little to send."""
    base = [{"item": n} for n in range(MAX_BASE)]
    read = base_of(base, [*base, "a"])
    assert len(canonical(read)) < 200
    assert merged({"k": [*base, "b"]}, {"k": [*base, "a"]}, {"k": read})["k"][-2:] == ["b", "a"]


def test_a_large_value_that_was_changed_is_compared_only() -> None:
    """It replaces the value it was made of, and nothing else."""
    base = {str(n): n for n in range(MAX_BASE)}
    written = base | {"0": 1}
    read = {"k": base_of(base, written)}
    assert merged({"k": base}, {"k": written}, read) == {"k": written}
    with pytest.raises(StateConflictError, match="too large"):
        merged({"k": base | {"1": 0}}, {"k": written}, read)


# ----- what State takes for read


def read_by(change: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The bases after a change."""
    actions: dict[str, Any] = {}
    state = State(value, {}, read=actions)
    change(state)
    state.collect_delta()
    return actions


def append(state: State) -> None:
    """Change a value in place."""
    state["k"].append("x")


def assign(state: State) -> None:
    """Read a value and set another one."""
    state["k"] = [*state["k"], "x"]


def with_default(state: State) -> None:
    """Go on from a default."""
    state["n"] = state.get("n", 10) + 1


def with_setdefault(state: State) -> None:
    """Set a default and change it in place."""
    state.setdefault("new", []).append("x")


def ask(state: State) -> None:
    """Look whether there is a value."""
    if "n" not in state:
        state["n"] = 1


def blind(state: State) -> None:
    """Set a value, and only then read it."""
    state["k"] = []
    state["k"].append("x")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (append, {"k": [["a"]]}),
        (assign, {"k": [["a"]]}),
        (with_default, {"n": [10]}),
        (with_setdefault, {"new": [[]]}),
        (ask, {"n": []}),
        (blind, {}),
        (lambda state: state["k"], {}),
    ],
    ids=["append", "assign", "default", "setdefault", "ask", "blind", "only read"],
)
def test_the_base_is_what_the_code_has_read(change: Any, expected: dict[str, Any]) -> None:
    """The value before its own changes, in place or not; only of keys that it has written."""
    assert read_by(change, {"k": ["a"]}) == expected


def test_changes_of_other_code_are_taken_with_their_bases() -> None:
    """An agent used as a tool has read what it received, not what the callback wrote since."""
    delta, read = {}, {}
    state = State({"k": ["a"], "t": "old"}, delta, read=read)
    state["k"].append("callback")
    state.merge({"k": ["a", "agent"], "t": "new"}, {"k": [["a"]]})
    assert state.collect_delta() == {"k": ["a", "callback", "agent"], "t": "new"}
    assert read == {"k": [["a"]]}
