"""How user code is called, what its time limit counts, and that it ends no event loop."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest

from durable_adk.calling import call, contained, contained_items, time_limit
from tests.support.waiting import PATIENCE, forever, until


@pytest.fixture
def one_thread() -> Iterator[ThreadPoolExecutor]:
    """The only thread that sync functions have."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def in_a_loop_with(pool: ThreadPoolExecutor, test) -> None:
    """Run a test where sync functions share a pool."""

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(pool)
        await test()

    asyncio.run(main())


async def limited(seconds: float, *works: Coroutine[Any, Any, Any]) -> None:
    """Do works one after the other, in so much time for all."""
    async with time_limit(seconds):
        for work in works:
            await work


async def refused(work: Coroutine[Any, Any, Any]) -> None:
    """Take work that cannot be done."""
    with pytest.raises(RuntimeError):
        await work


def test_the_time_of_a_sync_function_begins_when_its_code_does(one_thread) -> None:
    """F11: waiting for a thread does not count, running does."""

    async def test() -> None:
        loop, let_go = asyncio.get_running_loop(), threading.Event()
        before = loop.run_in_executor(None, let_go.wait, PATIENCE)
        hangs = threading.Event()
        async with time_limit(PATIENCE) as limit:
            end = limit.when()
            waiting = asyncio.create_task(call(hangs.wait, PATIENCE))
            await until(lambda: limit.when() is None)
            let_go.set()
            await until(limit.when)
            assert limit.when() > end
            hangs.set()
            await waiting
        await before
        hangs.clear()
        with pytest.raises(TimeoutError):
            await limited(0.1, call(hangs.wait, PATIENCE))
        hangs.set()

    in_a_loop_with(one_thread, test)


def test_what_has_gone_before_the_wait_counts(one_thread) -> None:
    """F11: the limit is of all that the step does."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with time_limit(PATIENCE) as limit:
            end = limit.when()
            await until(lambda: loop.time() > end - PATIENCE + 0.1)
            began = loop.time()
            await call(str)
            # It is postponed by no more than the wait for a thread has taken.
            assert end - 0.001 < limit.when() < end + loop.time() - began + 0.001
        with pytest.raises(TimeoutError):
            await limited(0.1, call(str), forever())

    in_a_loop_with(one_thread, test)


def test_a_call_that_cannot_begin_leaves_the_time_limit_running(one_thread) -> None:
    """F11: what handles the error has no more time than is left."""

    async def test() -> None:
        one_thread.shutdown()
        with pytest.raises(TimeoutError):
            await limited(0.1, refused(call(str)), forever())

    in_a_loop_with(one_thread, test)


def test_a_wait_for_a_thread_can_be_cancelled(one_thread) -> None:
    """I15: the function is not called then."""
    ran, let_go = list[int](), threading.Event()

    async def test() -> None:
        before = asyncio.get_running_loop().run_in_executor(None, let_go.wait, PATIENCE)
        waiting = asyncio.create_task(limited(PATIENCE, call(ran.append, 1)))
        await until(one_thread._work_queue.qsize)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        let_go.set()
        await before
        assert ran == []

    in_a_loop_with(one_thread, test)


def test_a_task_that_outlives_the_limit_can_still_call(one_thread) -> None:
    """OPEN-7: user code may leave tasks behind; a function may run a loop of its own."""

    async def later(end: asyncio.Event) -> str:
        await end.wait()
        return await call(str, 1)

    async def test() -> None:
        end = asyncio.Event()
        async with time_limit(PATIENCE):
            left = asyncio.create_task(later(end))
            await asyncio.sleep(0)
            assert await call(lambda: asyncio.run(call(str, 2))) == "2"
        end.set()
        assert await left == "1"

    in_a_loop_with(one_thread, test)


async def test_code_that_was_cancelled_and_has_returned_has_a_result() -> None:
    """I8: the tool has run, so its result counts; its changes of context variables stay, too."""
    seen = ContextVar[int]("seen", default=0)

    async def code() -> str:
        seen.set(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        asyncio.get_running_loop().call_soon(task.cancel)
        return "done"

    assert (await contained(code()), seen.get()) == ("done", 1)
    await asyncio.sleep(0)


@pytest.mark.parametrize("turns", [1, 2])
async def test_a_cancellation_of_the_step_reaches_its_code(turns: int) -> None:
    """I15: it is passed on as what it is, also before the code has begun."""
    begun, reached = list[str](), list[str]()

    async def code() -> None:
        begun.append("begun")
        try:
            await forever()
        except asyncio.CancelledError:
            reached.append("begun")
            raise

    step = asyncio.create_task(contained(code()))
    for _ in range(turns):
        await asyncio.sleep(0)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert reached == begun


async def guarded() -> AsyncGenerator[int]:
    """Has a time limit round what it yields, as a model of a user's may."""
    async with asyncio.timeout(PATIENCE):
        yield 1
        yield 2


async def stubborn() -> AsyncGenerator[int]:
    """Answers although it was cancelled."""
    try:
        await forever()
    except asyncio.CancelledError:
        yield 1
    await forever()


async def exits() -> AsyncGenerator[int]:
    """Raises what would end an event loop."""
    yield 1
    raise SystemExit(3)


async def test_a_generator_runs_in_one_task() -> None:
    """F12: a scope round a yield ends in the task that it began in; whatever is raised is ours."""
    assert [item async for item in contained_items(guarded())] == [1, 2]
    async with aclosing(contained_items(guarded())) as items:
        assert await anext(items) == 1
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        assert [item async for item in contained_items(exits())]


async def test_a_generator_that_catches_its_cancellation_ends() -> None:
    """I22: it is not waited for when nobody asks for more."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            assert [item async for item in contained_items(stubborn())]
