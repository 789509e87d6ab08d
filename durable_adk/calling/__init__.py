"""Calls user code, sync or async, without blocking the event loop."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from durable_adk.calling.code_scope import CodeScope, is_disturbed

T = TypeVar("T")
OBEY = 5.0
"""Seconds in which code must end once its result is no longer needed."""
_limit: ContextVar[asyncio.Timeout | None] = ContextVar("limit", default=None)


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; a sync one runs in a thread, so it may block (OPEN-7, CB-3).

    Context variables are available in the thread too. Results and exceptions pass through
    unchanged; only StopIteration and GeneratorExit become a RuntimeError.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__  # an object with an async __call__
    ):
        return await function(*args, **kwargs)
    result = await _in_thread(partial(_without_stop_iteration, function, *args, **kwargs))
    # A sync wrapper around an async function returns the coroutine.
    return await result if inspect.isawaitable(result) else result


async def contained(work: Awaitable[T], *, instead: "asyncio.Future[T] | None" = None) -> T:
    """Await user code; convert any exception that it raises to an Exception that fails the run.

    The code runs in a task of its own. So `asyncio.current_task().cancel()`, or a cancel scope that
    a library leaks, ends the code and not its step, which would be run again as after a lost
    worker. See `CodeScope` for exceptions of its tasks and callbacks.

    Args:
        work: The code.
        instead: Once it has a result, the code is cancelled, and this result is returned whatever
            the code does: its `except` clauses cannot suppress it.

    Raises:
        CancelledError: The caller's task was cancelled.
        RuntimeError: The code was cancelled otherwise, or raised something other than an Exception.
    """
    results: list[T] = []

    async def run() -> None:
        results.append(await work)

    context = copy_context()
    task = _started(run, context)
    try:
        if instead is not None:
            await _first(task, instead)
            if instead.done():
                return instead.result()
        await task
    except asyncio.CancelledError as error:
        if _is_cancelled() or is_disturbed():
            raise
        if not results:  # otherwise the code returned before the cancellation
            raise own_cancellation(error) from error
    finally:
        if task.done() and inspect.iscoroutine(work):
            work.close()  # it may have been cancelled before it began
        for variable, value in context.items():
            if variable.get(None) is not value:
                variable.set(value)  # as if the code had run in the caller's task
    return results[0]


async def contained_items(items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Iterate over a generator of user code as `contained` awaits a coroutine.

    All of it runs in one task, because a time limit or cancel scope around a `yield` belongs to a
    task. The generator is resumed when the next item is requested.
    """
    made: asyncio.Queue[T | None] = asyncio.Queue()
    requested = asyncio.Semaphore(0)
    wanted = True

    async def run() -> None:
        async with aclosing(items):
            async for item in items:
                made.put_nowait(item)
                if not wanted:  # the code has caught its cancellation
                    return
                await requested.acquire()

    task = _started(run, copy_context())
    task.add_done_callback(lambda _: made.put_nowait(None))
    try:
        while (item := await made.get()) is not None:
            yield item
            requested.release()
        task.result()
    except asyncio.CancelledError as error:
        if _is_cancelled() or is_disturbed():
            raise
        raise own_cancellation(error) from error
    finally:
        wanted = False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _started(code: Callable[[], Awaitable[None]], context: Context) -> "asyncio.Task[None]":
    async def run() -> None:
        with CodeScope():
            await code()

    caller = asyncio.current_task()
    # By this name the watchdog finds the step whose code blocks the loop.
    return asyncio.create_task(run(), context=context, name=caller and caller.get_name())


async def _first(task: "asyncio.Task[None]", instead: "asyncio.Future[Any]") -> None:
    """Wait for either; cancel the task if `instead` is first or the caller is cancelled."""
    try:
        await asyncio.wait([task, instead], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
    if instead.done():
        task.add_done_callback(lambda _: task.cancelled() or task.exception())
        task.cancel()
        await asyncio.wait([task], timeout=OBEY)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def own_cancellation(error: asyncio.CancelledError) -> RuntimeError:
    """Return the error for a cancellation of user code by neither Temporal nor a shutdown."""
    text = "User code raised CancelledError, or was cancelled by code of its own process."
    made = RuntimeError(text)
    made.__cause__ = error
    return made


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncGenerator[asyncio.Timeout]:
    """Like `asyncio.timeout`, but excludes the time that a sync function waits for a thread.

    That wait is not the function's fault, and is zero unless other functions use up the threads.
    """
    async with asyncio.timeout(seconds) as limit:
        before = _limit.get()
        _limit.set(limit)
        try:
            yield limit
        finally:
            _limit.set(before)  # no `reset`: an abandoned generator is finalized in another context


async def _in_thread(work: Callable[[], T]) -> T:
    loop, limit = asyncio.get_running_loop(), _limit.get()
    left = _stop(limit)
    if limit is None or left is None:
        return await asyncio.to_thread(work)

    def timed() -> T:
        _limit.set(None)  # the limit belongs to this loop; the function may run its own
        loop.call_soon_threadsafe(_restart, limit, loop.time() + left)
        return work()

    try:
        return await asyncio.to_thread(timed)
    finally:
        _restart(limit, loop.time() + left)


def _stop(limit: asyncio.Timeout | None) -> float | None:
    """Stop a time limit; return the seconds left, or None if it is not running."""
    until = limit.when() if limit is not None else None
    if limit is None or until is None:
        return None
    try:
        limit.reschedule(None)
    except RuntimeError:  # it has expired or ended
        return None
    return until - asyncio.get_running_loop().time()


def _restart(limit: asyncio.Timeout, until: float) -> None:
    """Restart a stopped time limit."""
    if limit.when() is None:
        with suppress(RuntimeError):  # it has ended in the meantime
            limit.reschedule(until)


def _without_stop_iteration(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:  # no future can carry them
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised {type(error).__name__}.") from error
