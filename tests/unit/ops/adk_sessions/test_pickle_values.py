"""The reader of pickles."""

import os
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from durable_adk.errors import InvalidRequestError
from durable_adk.ops.adk_sessions import pickle_values
from durable_adk.ops.adk_sessions.pickle_values import values_of
from tests.support.examples import examples

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@settings(max_examples=examples(200), deadline=None)
@given(values, st.integers(min_value=0, max_value=pickle.HIGHEST_PROTOCOL))
def test_json_comes_back_as_it_is(value, protocol) -> None:
    """What state holds is read the same from each protocol, also where parts are shared."""
    assert values_of(pickle.dumps([value, value], protocol)) == [value, value]


def test_a_long_value_is_read_in_pieces() -> None:
    """Pickles with many items put them on the stack in batches."""
    value = {f"key {n}": [n, "x" * n] for n in range(2500)}
    assert values_of(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        ({"a"}, ["a"]),
        (frozenset({"a"}), ["a"]),
        (b"\xff\x00", "_wA="),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (datetime(2025, 1, 2, 3, 4, tzinfo=UTC), "2025-01-02T03:04:00Z"),
        (date(2025, 1, 2), "2025-01-02"),
        (timedelta(seconds=90), "PT1M30S"),
        (Decimal("1.20"), "1.20"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (2**100, 2**100),
    ],
)
def test_types_of_data_are_json(value, expected) -> None:
    """They are written as google-adk's own JSON has them."""
    assert values_of(pickle.dumps({"x": value})) == {"x": expected}


class Called:
    """Is unpickled by a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(Called(os.system, "true")),
        pickle.dumps(Called(eval, "1")),
        pickle.dumps(Called(getattr, 1, "real")),
        pickle.dumps({"state": os.system}),
        pickle.dumps(Called(Called, 1)),
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x02cgoogle.adk.x\nY\n.",
        b"\x80\x02cgoogle.adk.x\nY\n(K\x01K\x02tR.",
        b"\x80\x02X\x01\x00\x00\x00a}b.",
        b"\x80\x04N",
        b"not a pickle",
        b"",
    ],
)
def test_what_is_no_data_is_refused(pickled) -> None:
    """S12: no function or class of a pickle is looked up, and what is cut off is an error."""
    with pytest.raises(InvalidRequestError):
        values_of(pickled)


def doubled(value: Any, make: Callable[[Any], Any], times: int = 60) -> Any:
    """A value that holds two of the one before, and so on."""
    for _ in range(times):
        value = make(value)
    return value


def nested(pickled: bytes) -> bytes:
    """A set with a tuple that is nested deeper than a hash function may recurse."""
    return b"\x80\x04\x8f(" + pickled + b"\x85" * 1_000_000 + b"\x90."


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
ROW = list(range(50_000))
LETTERS = "x" * 50_000


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(Called(bytearray, 10**10)),
        pickle.dumps(doubled([1], lambda one: [one, one])),
        pickle.dumps(doubled((1,), lambda one: (one, one))),
        pickle.dumps(doubled({"a": 1}, lambda one: {"a": one, "b": one})),
        pickle.dumps(["x" * 1_000_000] * 1000),
        pickle.dumps([b"x" * 1_000_000] * 1000),
        pickle.dumps([Called(list, ROW) for _ in range(5000)]),
        pickle.dumps([Called(tuple, LETTERS) for _ in range(5000)]),
        b"\x80\x04\x8f(" + pickle.dumps(doubled((1,), lambda one: (one, one)))[11:-1] + b"\x90.",
        b"\x80\x04}" + pickle.dumps(doubled((1,), lambda one: (one, one)))[11:-1] + b"Ns.",
        nested(b"N"),
        pickle.dumps(ENDLESS),
    ],
    ids=[
        *("bytes", "lists", "tuples", "dicts", "text", "binary", "copies", "characters"),
        *("in a set", "as a key", "nested", "itself"),
    ],
)
def test_a_small_pickle_of_endless_values_is_refused(
    pickled: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S12: before it has taken the memory, the time or the stack of who reads it."""
    monkeypatch.setattr(pickle_values, "MAX_SHARED", 5_000_000)
    with pytest.raises(InvalidRequestError):
        values_of(pickled)


def test_parts_that_are_used_often_are_read() -> None:
    """What an agent keeps in several places of its state is no attack."""
    document, row = "x" * 100_000, [1, ("a", 2.5), {"b": None}]
    value = {"documents": [document] * 100, "rows": [row] * 10_000, "pairs": {(1, "a"), (2, "b")}}
    found = values_of(pickle.dumps(value))
    assert found["documents"] == value["documents"]
    assert found["rows"] == [[1, ["a", 2.5], {"b": None}]] * 10_000
    assert sorted(found["pairs"]) == [[1, "a"], [2, "b"]]


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_bytes_that_may_change_are_read(protocol: int) -> None:
    """Each protocol writes a bytearray by another call."""
    value = {"full": bytearray(b"\xff\x00"), "empty": bytearray()}
    assert values_of(pickle.dumps(value, protocol)) == {"full": "_wA=", "empty": ""}
