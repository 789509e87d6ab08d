"""The activities: how often they are tried, and how user code is kept apart."""

import asyncio
import time
from dataclasses import replace

import pytest
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.definitions import MAX_ATTEMPTS, UserLoop, check_attempt
from durable_adk.errors import RunError


def at_attempt(number: int) -> ActivityEnvironment:
    """An activity's surroundings at an attempt."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=number)
    return environment


def test_a_step_that_keeps_losing_its_worker_is_given_up() -> None:
    """F12, I22: the attempt after the last one allowed ends the run, and names the step."""
    assert at_attempt(MAX_ATTEMPTS).run(check_attempt, "Tool 'x'") == MAX_ATTEMPTS
    with pytest.raises(RunError, match="Tool 'x' was given up: its worker was lost"):
        at_attempt(MAX_ATTEMPTS + 1).run(check_attempt, "Tool 'x'")


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
