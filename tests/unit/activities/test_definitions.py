"""The activities: how user code is kept apart."""

import asyncio
import time

import pytest

from durable_adk.activities.definitions import UserLoop


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
