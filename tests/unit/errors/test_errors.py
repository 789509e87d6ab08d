"""Errors: their retry classes, and how they cross a process."""

import pytest

from durable_adk import errors
from durable_adk.errors import (
    CLASSES,
    CallerError,
    DurableAdkError,
    ModelUnavailableError,
    RunError,
    ToolError,
    TransientError,
    as_detail,
    class_name,
    from_detail,
    raised,
    rebuild,
)
from durable_adk.errors.user_error import MAX_MESSAGE


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_has_one_retry_class_and_survives_a_crossing(name: str) -> None:
    """D11, DUR-10: class, message and original name are the same on the other side."""
    cls = CLASSES[name]
    if cls is not DurableAdkError:
        assert sum(issubclass(cls, base) for base in (CallerError, RunError, TransientError)) == 1
    copy = from_detail(as_detail(cls("what happened")))
    assert type(copy) is cls
    assert (copy.message, copy.error_type) == ("what happened", name)
    assert str(copy) == "what happened"


def test_the_tree_in_the_docstring_is_complete() -> None:
    """The picture at the top of the module names every class."""
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in CLASSES)


@pytest.mark.parametrize("builtin", [ValueError, KeyError, RuntimeError, ZeroDivisionError])
def test_a_user_exception_can_be_caught_as_what_it_was(builtin: type[Exception]) -> None:
    """DUR-10: before and after the crossing."""
    error = raised(ToolError, builtin.__name__, "no")
    for each in (error, from_detail(as_detail(error))):
        assert isinstance(each, ToolError)
        assert isinstance(each, builtin)
        assert (class_name(each), each.error_type) == ("ToolError", builtin.__name__)
        assert str(each) == "no"


@pytest.mark.parametrize("name", ["OSError", "UnicodeDecodeError", "SystemExit", "print", "Custom"])
def test_other_names_are_kept_as_names(name: str) -> None:
    """Classes that cannot be mixed in, are no exceptions, or are not known here."""
    error = raised(ToolError, name, "no")
    assert isinstance(error, ToolError)
    assert error.error_type == name


def test_a_group_of_exceptions_is_kept_as_a_name() -> None:
    """F12: a class that is made of two arguments cannot be mixed in."""
    assert raised(ToolError, "ExceptionGroup", "two").error_type == "ExceptionGroup"


@pytest.mark.parametrize(
    "text", ["x" * 10**6, "\U0001f600" * 10**5, "\ud800" * 10**5, "\x00" * 10**5]
)
def test_a_message_is_cut_where_every_store_can_hold_it(text: str) -> None:
    """D6, 1c: 8 KB of UTF-8 however wide its characters are."""
    error = raised(ToolError, "ValueError", text)
    assert len(as_detail(error)["message"].encode()) <= MAX_MESSAGE
    assert "\x00" not in error.message


def test_an_exception_without_a_text_can_be_told_of() -> None:
    """F12: `__str__` is user code."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert errors.describe(MuteError())[1] == "(its text cannot be read)"


def test_an_unknown_class_is_a_run_error() -> None:
    """A newer worker's error reaches an older client as something it can catch."""
    error = rebuild("FutureError", "new")
    assert isinstance(error, RunError)
    assert error.error_type == "FutureError"


@pytest.mark.parametrize(("wish", "delays"), [(None, [1, 2, 4, 30]), (7.5, [7.5, 7.5, 7.5, 7.5])])
def test_the_wait_for_a_model_grows_unless_the_provider_says(
    wish: float | None, delays: list[float]
) -> None:
    """D11: Retry-After is honoured."""
    error = ModelUnavailableError("busy", retry_after=wish)
    assert [error.delay(attempt) for attempt in (1, 2, 3, 12)] == delays


def test_the_message_defaults_to_the_docstring() -> None:
    """The text lives once."""
    assert str(errors.LeaseLostError()) == (
        "The invocation no longer holds its session's lease, so it may not write."
    )
