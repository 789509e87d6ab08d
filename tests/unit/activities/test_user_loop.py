"""How user code is kept apart, and what it does to its own kind."""

import asyncio
import time
from typing import Any

import pytest

from durable_adk.activities import user_loop
from durable_adk.activities.user_loop import BLOCKED, UserLoop


async def test_a_cancelled_wait_takes_the_result_of_work_that_finishes() -> None:
    """CAN-1: what was being committed is known to whoever cancelled it."""
    loop = UserLoop()
    started = asyncio.Event()
    here = asyncio.get_running_loop()

    async def commits() -> str:
        here.call_soon_threadsafe(started.set)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "committed"
        return "slept"

    wait = asyncio.create_task(loop.run(commits()))
    await started.wait()
    wait.cancel()
    assert await asyncio.wait_for(wait, 5) == "committed"
    await loop.close()


async def test_a_cancellation_reaches_work_that_has_not_begun() -> None:
    """CAN-3: also while other user code blocks the loop that the work waits for."""
    loop = UserLoop()
    ran: list[int] = []

    async def blocks() -> None:
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - what user code may do

    async def late() -> None:
        await asyncio.sleep(0)
        ran.append(1)

    blocking = asyncio.create_task(loop.run(blocks()))
    await asyncio.sleep(0.1)
    wait = asyncio.create_task(loop.run(late()))
    await asyncio.sleep(0.05)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(wait, 5)
    await blocking
    assert ran == []
    await loop.close()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is logged as a warning."""
    lines: list[dict[str, Any]] = []
    warn = lambda event, **fields: lines.append({"event": event, **fields})  # noqa: E731
    monkeypatch.setattr(user_loop.logger, "warning", warn)
    return lines


async def test_code_that_blocks_is_named(told: list[dict[str, Any]]) -> None:
    """I22, F41: once, with the line; the work of others waits for it and is not lost."""
    loop = UserLoop()

    async def blocks() -> None:
        time.sleep(5 * BLOCKED)  # noqa: ASYNC251 - what user code may do

    async def waits() -> str:
        return "done"

    blocking = asyncio.create_task(loop.run(blocks()))
    await asyncio.sleep(0.1)
    assert await loop.run(waits()) == "done"
    await blocking
    await loop.close()
    assert [line["event"] for line in told] == ["user_loop.blocked"]
    assert "time.sleep(5 * BLOCKED)" in told[0]["stack"]


async def test_a_loop_that_waits_is_not_blocked(told: list[dict[str, Any]]) -> None:
    """Nobody is told of code that waits as it should."""
    loop = UserLoop()
    await loop.run(asyncio.sleep(2.5 * BLOCKED))
    await loop.close()
    assert told == []
