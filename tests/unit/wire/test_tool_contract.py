"""When a tool that raised is run again."""

from typing import Any

import pytest
from pydantic import ValidationError

from durable_adk.wire.tool_contract import RetryConfig


class BusyError(OSError):
    """An error of somebody else's library."""


def test_pauses_grow_until_they_are_long_enough() -> None:
    """Exponential, bounded, and none after the last attempt."""
    retry = RetryConfig(max_attempts=5, initial_delay=2, backoff_factor=3, max_delay=10)
    assert [retry.delay(attempt, OSError()) for attempt in range(1, 6)] == [2, 6, 10, 10, None]
    assert RetryConfig(max_attempts=10**6).delay(10**5, OSError()) == 60


@pytest.mark.parametrize("exceptions", [None, ["OSError"], [OSError], [KeyError, BusyError]])
def test_errors_are_chosen_by_class_or_name(exceptions: Any) -> None:
    """Subclasses count too; what is not named is not retried."""
    retry = RetryConfig(exceptions=exceptions)
    assert retry.delay(1, BusyError()) is not None
    assert (retry.delay(1, ValueError()) is not None) == (exceptions is None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 1),
        ("initial_delay", -1),
        ("initial_delay", float("inf")),
        ("backoff_factor", 0.5),
        ("max_delay", float("nan")),
        ("exceptions", "OSError"),
        ("exceptions", [3]),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(field: str, value: Any) -> None:
    """The error names the field."""
    with pytest.raises(ValidationError, match=field):
        RetryConfig(**{field: value})


def test_it_is_the_same_after_a_trip_through_a_history() -> None:
    """D6: it is recorded when an invocation opens."""
    retry = RetryConfig(max_attempts=7, exceptions=[BusyError])
    assert RetryConfig.from_json(retry.to_json()) == retry
