"""What tests wait with."""

import pytest

from tests.support.waiting import stays, until, until_true


async def test_a_state_is_waited_for_and_returned():
    """Of a function or a coroutine, as soon as it is true."""
    looks = iter([0, "", [], "there"])

    async def look() -> object:
        return next(looks)

    assert await until(look) == "there"
    assert until_true(lambda: 7) == 7


async def test_what_does_not_come_is_named():
    """With its last value, instead of a hang."""
    with pytest.raises(TimeoutError, match=r"test_waiting.py:\d+\) is still 0"):
        await until(lambda: 0, patience=0)
    with pytest.raises(TimeoutError, match="is still None"):
        until_true(lambda: None, patience=0)


async def test_what_changes_does_not_stay():
    """However late within the time in which it is watched."""
    looks = iter([True, True, False])
    with pytest.raises(AssertionError, match="no longer"):
        await stays(lambda: next(looks))
