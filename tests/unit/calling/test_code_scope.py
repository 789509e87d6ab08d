"""What user code raises ends that code, and no event loop."""

import asyncio
from typing import Any

import pytest

from durable_adk.calling.code_scope import CodeScope, keep_running
from durable_adk.errors import frames_of_error
from tests.support.waiting import forever, until


def leave() -> None:
    """Raise what ends an event loop."""
    raise SystemExit(3)


def later() -> None:
    """Let a timer raise it."""
    loop = asyncio.get_running_loop()
    keep_running(loop, whoever=False)
    loop.call_later(0, leave)


async def passed() -> None:
    """Wait for the timer of `later`, and for what follows it."""
    for _ in range(5):
        await asyncio.sleep(0)


async def falls() -> None:
    """Wait for what ends it."""
    with CodeScope():
        later()
        await forever()


async def test_the_innermost_open_scope_ends() -> None:
    """F12: with the line; what is around it continues."""
    with CodeScope():
        with pytest.raises(RuntimeError, match="raised SystemExit: 3") as caught:
            await falls()
        assert frames_of_error(caught.value)[-1].endswith(" in leave")
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_what_a_scope_that_has_ended_has_begun_ends_the_one_around_it() -> None:
    """F12: unless that is somebody else's."""

    async def code() -> None:
        with CodeScope():
            with CodeScope():
                later()
            await forever()

    with pytest.raises(RuntimeError, match="SystemExit"):
        await code()
    with CodeScope():
        with CodeScope(outermost=True):
            later()
        await passed()


async def test_a_generator_s_next_step_raises_what_came_between() -> None:
    """F12: and whoever has its value is not disturbed."""
    code = CodeScope(stepped=True)
    with code:
        later()
    await passed()
    with pytest.raises(RuntimeError, match="SystemExit"), code:
        pytest.fail("it goes on")


async def test_a_cancellation_of_others_comes_first() -> None:
    """CAN-1: they wait for it."""
    task = asyncio.create_task(falls())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_nobody_has_asked_for_is_an_error() -> None:
    """F12: user code has raised it, and nobody waits for its end."""
    with pytest.raises(RuntimeError, match="raised CancelledError"), CodeScope():
        raise asyncio.CancelledError


async def test_a_result_stands() -> None:
    """I3: it may be stored."""
    with CodeScope():
        later()
        try:
            await forever()
        except asyncio.CancelledError:
            done = True
    assert done


def test_a_scope_that_is_closed_says_nothing() -> None:
    """I22: Python closes the coroutines of a workflow that a worker drops."""

    async def code() -> None:
        with CodeScope():
            await forever()

    async def begin() -> None:
        work.send(None)

    work: Any = code()
    asyncio.run(begin())
    work.close()


def test_an_application_ends_itself() -> None:
    """Its own exits are its own, also while user code runs."""

    async def main() -> None:
        ended: list[int] = []

        task = asyncio.create_task(falls())
        task.add_done_callback(lambda _: ended.append(1))
        await until(lambda: ended)
        assert isinstance(task.exception(), RuntimeError)
        later()
        await forever()

    with pytest.raises(SystemExit):
        asyncio.run(main())


async def test_code_may_end_a_loop_of_its_own() -> None:
    """I22: only the one that runs the code is not for it to stop."""

    async def runs_agents() -> str:
        keep_running(asyncio.get_running_loop(), whoever=False)
        with CodeScope(outermost=True):
            await asyncio.sleep(0)
        return "ended"

    with CodeScope():
        assert await asyncio.to_thread(asyncio.run, runs_agents()) == "ended"
