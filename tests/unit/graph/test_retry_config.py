"""Which errors of a node are retried, and when."""

import random
from typing import Any

import pytest
from pydantic import ValidationError

from durable_adk.graph.retry_config import NodeRetryConfig, error_names


class OddError(LookupError):
    """An exception of an application."""


class Highest:
    """Draws the highest number of each range, or the lowest."""

    def __init__(self, place: int) -> None:
        self.place = place

    def uniform(self, a: float, b: float) -> float:
        return (a, b)[self.place]


@pytest.mark.parametrize(
    ("most", "allowed"), [(None, [1, 2, 3, 4]), (0, []), (1, []), (2, [1]), (3, [1, 2])]
)
def test_attempts_are_counted_with_the_first(most: int | None, allowed: list[int]) -> None:
    """GR-110: five by default; 0 and 1 mean no retry."""
    retry = NodeRetryConfig(max_attempts=most)
    names = error_names(ValueError())
    assert [attempt for attempt in range(1, 8) if retry.allows(names, attempt)] == allowed


@pytest.mark.parametrize(
    ("exceptions", "allowed"),
    [
        (None, True),
        ([], False),
        (["OddError"], True),
        ([LookupError], True),
        (["Exception", "KeyError"], True),
        ([KeyError], False),
        (["object"], False),
    ],
)
def test_an_exception_is_selected_by_the_name_of_any_of_its_classes(
    exceptions: Any, allowed: bool
) -> None:
    """GR-110: which may be given as a class, and is kept as a name."""
    retry = NodeRetryConfig(exceptions=exceptions)
    assert retry.allows(error_names(OddError()), 1) is allowed
    assert all(isinstance(name, str) for name in retry.exceptions or [])
    assert NodeRetryConfig.model_validate_json(retry.model_dump_json()) == retry


@pytest.mark.parametrize(
    ("fields", "delays"),
    [
        ({}, [1, 2, 4, 8]),
        ({"initial_delay": 5, "max_delay": 12}, [5, 10, 12, 12]),
        ({"initial_delay": 2, "backoff_factor": 1}, [2, 2, 2, 2]),
        ({"initial_delay": 0, "backoff_factor": 1e300}, [0, 0, 0, 0]),
        ({"max_delay": 0}, [0, 0, 0, 0]),
    ],
)
def test_a_delay_grows_to_the_maximum(fields: dict[str, Any], delays: list[float]) -> None:
    """GR-110: without jitter it is the same each time."""
    retry = NodeRetryConfig(jitter=0, **fields)
    assert [retry.delay(attempt, random.Random(1)) for attempt in (1, 2, 3, 4)] == delays


def test_a_long_retry_does_not_overflow() -> None:
    """GR-110: the thousandth delay is the maximum."""
    assert NodeRetryConfig(jitter=0).delay(5000, random.Random(1)) == 60.0


@pytest.mark.parametrize("jitter", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("attempt", [1, 3, 50])
def test_jitter_spreads_a_delay_within_the_maximum(jitter: float, attempt: int) -> None:
    """GR-110: by the same share up and down, and the longest delays differ too."""
    retry = NodeRetryConfig(jitter=jitter, max_delay=10)
    base = min(2.0 ** (attempt - 1), 10 / (1 + jitter))
    assert retry.delay(attempt, Highest(1)) == pytest.approx(base * (1 + jitter))
    assert retry.delay(attempt, Highest(0)) == pytest.approx(max(base * (1 - jitter), 0))
    same = [retry.delay(attempt, random.Random(7)) for _ in range(2)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"exceptions": [5]}, "exceptions must contain exception class names"),
        ({"exceptions": [int]}, "exceptions must contain exception class names"),
        ({"attempts": 3}, "did you mean 'max_attempts'"),
        ({"initial_delay": -1}, "greater than or equal to 0"),
        ({"max_delay": float("inf")}, "finite number"),
    ],
)
def test_what_is_no_policy_is_refused(fields: dict[str, Any], says: str) -> None:
    """GR-41, GR-10: with the nearest name."""
    with pytest.raises(ValidationError, match=says):
        NodeRetryConfig(**fields)
