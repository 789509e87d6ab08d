"""JSON values and ids."""

import dataclasses
import enum
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from durable_adk.errors import InvalidRequestError, StateValueError
from durable_adk.json_values import MAX_DEPTH, canonical, check_id, check_json, to_json_value

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


class Color(enum.Enum):
    """An enum."""

    RED = "red"


class Point(BaseModel):
    """A model."""

    x: int


@dataclasses.dataclass
class Pair:
    """A dataclass."""

    left: Any
    right: Any


@given(JSON)
def test_what_passes_survives_json_unchanged(value: Any) -> None:
    """TRAP-21: what is read back equals what was written, types included."""
    check_json(value)
    assert json.loads(json.dumps(value)) == value
    assert to_json_value(value) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "is nan"),
        (math.inf, "is inf"),
        ("a\x00", "NUL character at index 1"),
        ("\ud800", "lone surrogate at index 0"),
        ({1: 2}, "the key 1"),
        ({"a\x00": 2}, "a key of state holds a NUL"),
        ((1, 2), "is a tuple"),
        ({1, 2}, "is a set"),
        (b"x", "is a bytes"),
        (date(2026, 1, 5), "is a date"),
        (Color.RED, "is the enum"),
        (object(), "is a object"),
        (Point(x=1), "is a Point"),
        pytest.param(1 << 20_000, "too many digits", id="long"),
        ({object(): 1}, "the key of type object"),
    ],
)
def test_what_does_not_is_named_with_its_path(value: Any, words: str) -> None:
    """S16, 1j: at any depth, the path leads to it."""
    with pytest.raises(StateValueError, match=words):
        check_json(value, "state")
    with pytest.raises(StateValueError, match=r"state\['a'\]\[1\]"):
        check_json({"a": [0, value]}, "state")


def test_depth_is_bounded() -> None:
    """S16: a nesting bomb is refused before it reaches a recursion limit."""
    value: Any = []
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(StateValueError, match="nested more than"):
        check_json(value)
    check_json(value[0])


def test_what_tools_commonly_return_becomes_json() -> None:
    """FLW-49: models, dataclasses, tuples, sets, dates, enums, uuids, at any depth.

    They become what google-adk's events have of them.
    """
    value = {
        "model": Point(x=1),
        "pair": Pair(left=(1, 2), right={3}),
        "when": date(2026, 1, 5),
        "color": Color.RED,
        "id": UUID(int=0),
        "price": Decimal("1.50"),
        "took": timedelta(hours=1, seconds=1.5),
        "file": Path("/a/b"),
        "bytes": b"hi\xff",
        "at": datetime(2026, 1, 5, tzinfo=UTC),
        "keys": {1: "a", date(2026, 1, 5): "b"},
    }
    result = to_json_value(value)
    check_json(result)
    assert result == {
        "model": {"x": 1},
        "pair": {"left": [1, 2], "right": [3]},
        "when": "2026-01-05",
        "color": "red",
        "id": "00000000-0000-0000-0000-000000000000",
        "price": "1.50",
        "took": "PT1H1.5S",
        "file": "/a/b",
        "bytes": "aGn_",
        "at": "2026-01-05T00:00:00Z",
        "keys": {"1": "a", "2026-01-05": "b"},
    }


class Measured(BaseModel):
    """A value that may be missing."""

    value: float
    of: float | None = None


def test_a_tool_s_result_has_no_value_for_what_is_no_number() -> None:
    """FLW-49: as google-adk stores it; elsewhere it is refused."""
    value = {"rates": [math.nan, math.inf, 1.5], "model": Measured(value=-math.inf)}
    result = to_json_value(value, of_tool=True)
    assert result == {"rates": [None, None, 1.5], "model": {"value": None}}
    with pytest.raises(StateValueError, match="is nan"):
        check_json(to_json_value(value))


class Mute:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")


def nested() -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(10_000):
        value = [value]
    return value


def within_itself(kind: type) -> Any:
    """Something that holds itself."""
    if kind is Pair:
        pair = Pair(left=1, right=None)
        pair.right = pair
        return pair
    value: Any = {}
    value["self"] = value
    return value


class Unwritable(BaseModel):
    """A model that cannot be written."""

    model_config = {"arbitrary_types_allowed": True}
    held: Any = None


@pytest.mark.parametrize(
    "value",
    [
        *(nested(), within_itself(dict), within_itself(Pair), Mute(), {Mute(): 1}, {Mute()}),
        {1: "one", "1": "text"},
        *(Unwritable(held=object()), Unwritable(held=Mute())),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_it_is_it_is_made_json_or_refused(value: Any) -> None:
    """F13, S16: nothing that user code can make ends in another error."""
    with pytest.raises(StateValueError):
        check_json(to_json_value(value))


@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_one_text_per_value_whatever_the_order(value: dict[str, Any]) -> None:
    """Digests do not depend on how a dict was built."""
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@pytest.mark.parametrize("good", ["u", "alice@example.com", "a:b", "a/b", " ünï ", "x" * 128])
def test_visible_ids_pass_stripped(good: str) -> None:
    """Users bring the ids they have."""
    assert check_id(good, "user_id") == good.strip()


@pytest.mark.parametrize("bad", ["", " ", "a\tb", "\x7f", "\u2028", "\udfff", "x" * 129, None, 3])
def test_other_ids_are_refused_by_field(bad: Any) -> None:
    """S2: the message names the field."""
    with pytest.raises(InvalidRequestError, match="user_id"):
        check_id(bad, "user_id")
