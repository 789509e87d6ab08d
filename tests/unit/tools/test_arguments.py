"""Lossless conversion of a model's arguments."""

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from durable_adk.tools._arguments import convert, missing_error, unfit_error
from durable_adk.tools._parameters import Parameter


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Guest(BaseModel):
    name: str
    age: int = 0


@dataclass
class Room:
    number: int


class Stay(TypedDict):
    nights: int


def field(annotation: Any, name: str = "x") -> Parameter:
    return Parameter(name=name, adapter=TypeAdapter(annotation))


def converted(annotation: Any, sent: Any) -> Any:
    values, problems = convert([field(annotation)], {"x": sent})
    assert problems == []
    return values["x"]


def problem(annotation: Any, sent: Any) -> str:
    values, problems = convert([field(annotation)], {"x": sent})
    assert problems, f"{sent!r} became {values['x']!r}"
    return problems[0]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
# Integers beyond 2**53 are values of an int, but no values of a float.
_FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
_TYPED = st.recursive(
    st.sampled_from(
        [
            (int, st.integers()),
            (float, _FLOATS),
            (bool, st.booleans()),
            (str, st.text()),
            (Any, _JSON),
            (Literal["a", 3], st.sampled_from(["a", 3])),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda typed: (list[typed[0]], st.lists(typed[1], max_size=3))),
        inner.map(
            lambda typed: (dict[str, typed[0]], st.dictionaries(st.text(), typed[1], max_size=3))
        ),
        inner.map(lambda typed: (typed[0] | None, st.none() | typed[1])),
        st.tuples(inner, inner).map(lambda two: (two[0][0] | two[1][0], two[0][1] | two[1][1])),
    ),
    max_leaves=4,
)


@given(st.data())
def test_what_fits_arrives_as_it_was_sent(data):
    """For random annotations and fitting values, what arrives equals what was sent (TOL-15)."""
    annotation, values = data.draw(_TYPED)
    sent = data.draw(values)
    assert converted(annotation, sent) == sent


@given(st.sampled_from([int, float, bool, int | float, bool | int | str]), _JSON)
def test_nothing_arrives_changed(annotation, sent):
    """Whatever is sent, it arrives equal, as what it spells, or not at all."""
    values, problems = convert([field(annotation)], {"x": sent})
    if problems:
        return
    got = values["x"]
    same = got == sent and isinstance(got, bool) == isinstance(sent, bool)
    assert same or (
        isinstance(sent, str) and (str(got).lower() == sent.lower() or got == float(sent))
    )


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (int, "3", 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (float, "3.5", 3.5),
        (bool, "true", True),
        (bool, "False", False),
        (Color, "red", Color.RED),
        (Level, 2, Level.HIGH),
        (Guest, {"name": "Ann", "age": "7"}, Guest(name="Ann", age=7)),
        (list[Guest], [{"name": "Ann"}], [Guest(name="Ann")]),
        (Room, {"number": 4}, Room(4)),
        (Stay, {"nights": 2}, {"nights": 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (dt.date, "2026-01-31", dt.date(2026, 1, 31)),
        (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (Decimal, "1.10", Decimal("1.10")),
        (int | str, "3", "3"),
        (dict[str, int], {"a": "1"}, {"a": 1}),
    ],
)
def test_lossless_conversions_are_made(annotation, sent, got):
    """Text becomes what it spells, objects the annotated class (17.1, TOL-15)."""
    value = converted(annotation, sent)
    assert value == got
    assert type(value) is type(got)


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (int, 3.7),
        (int, "3.7"),
        (int, True),
        (int, None),
        (float, False),
        (float, 2**53 + 1),
        (float, 10**400),
        (float, "nan"),
        (float, "inf"),
        (bool, 1),
        (bool, 0.0),
        (bool, "yes"),
        (bool, "1"),
        (str, 3),
        (str, None),
        (Color, "green"),
        (Guest, {"age": 7}),
        (Guest, "Ann"),
        (list[int], "1"),
        (list[int], [1, True]),
        (dict[str, list[bool]], {"a": [True, 0]}),
        (Literal["a"], "b"),
    ],
)
def test_what_does_not_fit_is_not_guessed(annotation, sent):
    """Nothing is rounded, and neither 1 nor "yes" is a bool (17.1, TOL-15)."""
    assert problem(annotation, sent).startswith("`x")


def test_problem_names_place_value_and_expectation():
    """The model learns where in the argument, what it sent, and what was expected."""
    line = problem(list[Guest], [{"name": "Ann"}, {"name": 5}])
    assert line == "`x[1].name`: got 5. Input should be a valid string."


def test_own_validator_may_change_the_value():
    """Clamping or cleaning in an Annotated validator is the user's decision, not a loss."""
    clamped = Annotated[int, AfterValidator(lambda value: min(value, 100))]
    assert converted(clamped, 500) == 100
    assert "less than" in problem(Annotated[int, Field(lt=100)], 500)


def test_missing_is_only_what_is_mandatory():
    """Nothing is said when every mandatory argument is there, even if it is None (TOL-14)."""
    fields = [field(int, "a"), Parameter(name="b", adapter=TypeAdapter(int), default=1)]
    assert missing_error("f", fields, {"a": None}) is None
    assert "\na\n" in (missing_error("f", fields, {"b": 1}) or "")


def test_unfit_error_stays_short():
    """A thousand bad values make a message of bounded length."""
    values, problems = convert([field(list[int])], {"x": ["word" * 1000] * 1000})
    assert values == {}
    text = unfit_error("f", problems)
    assert "and 990 more" in text
    assert len(text) < 3000
