"""Exceptions of user code cross a process, and what was forged does nothing (DUR-10, S23)."""

import json
import sys
from typing import Any, Self

import pytest
from hypothesis import given, strategies as st

from durable_adk.errors import (
    Detail,
    ModelError,
    RunError,
    ToolError,
    as_detail,
    as_raised,
    from_detail,
    wrapped,
)
from durable_adk.errors.user_error import MAX_JSON, UserError

HARM: list[str] = []


class GuardedError(Exception):
    """An exception of which any code that runs is noticed."""

    def __new__(cls, *args: Any) -> Self:
        HARM.append("new")
        return super().__new__(cls, *args)

    def __init__(self, *args: Any) -> None:
        HARM.append("init")
        super().__init__(*args)

    @property
    def owner(self) -> str:
        """A field with a setter."""
        return "nobody"

    @owner.setter
    def owner(self, value: str) -> None:
        HARM.append(value)

    def __setattr__(self, name: str, value: object) -> None:
        HARM.append(name)
        super().__setattr__(name, value)


class SlottedError(ValueError):
    """Keeps a field in a slot."""

    __slots__ = ("code",)


def crossed(error: Exception) -> Exception:
    """What a caller in another process catches."""
    detail = json.loads(json.dumps(as_detail(wrapped(ToolError, error))))
    return as_raised(from_detail(detail))


def forged(**user: Any) -> Exception:
    """What comes of a detail that nobody here has written."""
    return as_raised(
        from_detail({"class": "ToolError", "type": "Evil", "message": "m", "user": user})
    )


@given(st.lists(st.none() | st.booleans() | st.integers() | st.text("ab"), max_size=3), st.text())
def test_arguments_and_text_are_the_same(args: list[Any], text: str) -> None:
    """Whatever JSON they are."""
    error = LookupError(*args, text.replace("\x00", ""))
    copy = crossed(error)
    assert (type(copy), copy.args, str(copy)) == (LookupError, error.args, str(error))


def test_fields_in_dicts_and_slots_are_the_same() -> None:
    """Also those that Python's own classes keep elsewhere."""
    slotted = SlottedError("s")
    slotted.code = 7
    copy = crossed(slotted)
    assert isinstance(copy, SlottedError)
    assert copy.code == 7
    missing = crossed(ImportError("no", name="x"))
    assert isinstance(missing, ImportError)
    assert missing.name == "x"


def test_causes_are_kept_to_a_depth() -> None:
    """And a cause whose class is not known here is named."""

    def raised(depth: int) -> Exception:
        error = ValueError(str(depth))
        error.__cause__ = raised(depth - 1) if depth else None
        return error

    copy, texts = crossed(raised(9)), []
    while copy is not None:
        texts.append(str(copy))
        copy = copy.__cause__
    assert texts == ["9", "8", "7", "6"]
    unknown = forged(
        classes=["builtins:ValueError"], text="m", cause={"classes": ["x:Gone"], "text": "why"}
    )
    assert str(unknown.__cause__) == "Gone: why"


def test_the_object_itself_is_passed_on_in_process() -> None:
    """A detail that was not copied has it, also after it went through another one."""
    error = ValueError("no")
    detail = as_detail(wrapped(ModelError, error))
    assert isinstance(detail, Detail)
    assert as_raised(from_detail(as_detail(from_detail(detail)))) is error


def test_a_class_of_the_user_s_below_one_of_ours_is_kept() -> None:
    """Its place in the tree is that of its base."""

    class TooManyError(ToolError):
        """Of the user's."""

    copy = crossed(TooManyError("too many"))
    assert (type(copy), str(copy)) == (TooManyError, "too many")
    assert as_detail(wrapped(RunError, TooManyError("x")))["class"] == "ToolError"


def test_large_fields_are_left_out() -> None:
    """1c: a failure is small."""
    error = ValueError("short")
    error.blob = "x" * MAX_JSON  # pyright: ignore[reportAttributeAccessIssue]: a user's field
    assert len(json.dumps(UserError.of(error).to_detail())) < 500


@pytest.mark.parametrize("value", [float("nan"), "\x00", "\ud800", (1, 2), {1: 2}, object()])
def test_fields_that_a_store_cannot_keep_are_left_out(value: object) -> None:
    """1j: the record of an invocation holds them."""
    error = ValueError("m")
    error.field = value  # pyright: ignore[reportAttributeAccessIssue]: a user's field
    assert UserError.of(error).attributes == {}


# ----- forged


def test_no_code_of_the_class_runs() -> None:
    """S23: neither constructor nor setter."""
    HARM.clear()
    name = f"{__name__}:GuardedError"
    error = forged(classes=[name], text="m", args=["m"], attributes={"owner": "me", "x": 1})
    assert type(error) is GuardedError
    assert HARM == []


def test_nothing_is_imported() -> None:
    """S23: a module that is not there already stays away."""
    before = set(sys.modules)
    error = forged(classes=["antigravity:Evil", "this:Worse"], text="m")
    assert isinstance(error, ToolError)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "name",
    ["builtins:SystemExit", "builtins:KeyboardInterrupt", "builtins:StopIteration", "os:system"],
)
def test_only_ordinary_exceptions_are_made(name: str) -> None:
    """S23: nothing that ends a process or a generator."""
    assert type(forged(classes=[name], text="m")).__name__ == "ToolError"


@pytest.mark.parametrize(
    "user",
    [
        {},
        {"classes": []},
        {"classes": "ValueError"},
        {"classes": [1]},
        {"classes": ["builtins:ValueError"], "args": 5},
        {"classes": ["builtins:ValueError"], "attributes": [1]},
        {"classes": ["builtins:UnicodeDecodeError"], "args": ["m"], "text": "m"},
        {"classes": ["builtins:ValueError"], "text": "m", "attributes": {"__class__": "x"}},
        {"classes": ["builtins:OSError"], "text": "m", "attributes": {"errno": "x"}},
    ],
)
def test_an_unfit_detail_is_an_error_all_the_same(user: dict[str, Any]) -> None:
    """Whatever was sent, the caller gets an exception."""
    assert isinstance(forged(**user), Exception)
