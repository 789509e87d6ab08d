"""Retries of calls to services that are briefly unavailable."""

import pytest

from durable_adk.errors import SessionRegressedError, StoreUnavailableError
from durable_adk.retrying import Deadline, retrying


async def test_a_call_is_retried_until_it_succeeds_or_its_time_is_over() -> None:
    """F16: other errors are raised at once, and so is the last one after the deadline."""
    errors: list[Exception] = [StoreUnavailableError("down"), StoreUnavailableError("down")]

    async def call(value: int) -> int:
        if errors:
            raise errors.pop(0)
        return value

    assert await retrying(call, 10.0, pause=0.0)(1) == 1
    for error, seconds in [(ValueError("no"), 10.0), (StoreUnavailableError("down"), 0.0)]:
        errors.append(error)
        with pytest.raises(type(error)):
            await retrying(call, seconds, pause=0.0)(2)
    assert errors == []


async def test_a_deadline_can_be_postponed_while_it_is_waited_for() -> None:
    """I21: a store that is older than the run is waited for longer than one that is away."""
    deadline, calls = Deadline(0.0), 0

    async def call() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            deadline.postpone(10.0)
            deadline.postpone(5.0)
            raise SessionRegressedError
        return calls

    assert await retrying(call, deadline, pause=0.0)() == 2
    assert 5.0 < deadline.left() <= 10.0
