"""Calls user code, sync or async, without blocking the event loop."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from durable_adk.errors import text_of

T = TypeVar("T")
_limit: ContextVar[asyncio.Timeout | None] = ContextVar("limit", default=None)


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; a sync one runs in a thread, so it may block (semantics OPEN-7, CB-3).

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


async def contained(work: Awaitable[T]) -> T:
    """Await user code; convert whatever it raises to an Exception that fails the run.

    SystemExit would stop the event loop of all user code. A CancelledError without a cancellation
    (some libraries leak them) would look like a lost worker, and the code would be retried for
    ever.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("User code raised CancelledError, but was not cancelled.") from error
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"User code raised {type(error).__name__}: {text_of(error)}") from error


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncGenerator[asyncio.Timeout]:
    """Like `asyncio.timeout`, but excludes the time that a sync function waits for a thread.

    That wait says nothing about the function, and is zero unless other functions use up the
    threads.
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
        loop.call_soon_threadsafe(_go_on, limit, loop.time() + left)
        return work()

    try:
        return await asyncio.to_thread(timed)
    finally:
        _go_on(limit, loop.time() + left)


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


def _go_on(limit: asyncio.Timeout, until: float) -> None:
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
