"""How user code is called: sync or async, always without blocking the event loop."""

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

    Context variables are there in the thread too. What the function returns or raises is passed
    on; only StopIteration and GeneratorExit become a RuntimeError.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__  # an object with an async __call__
    ):
        return await function(*args, **kwargs)
    result = await _in_thread(partial(_without_stop_iteration, function, *args, **kwargs))
    # A sync wrapper round an async function returns the coroutine.
    return await result if inspect.isawaitable(result) else result


async def contained(work: Awaitable[T]) -> T:
    """Await user code; whatever ends it comes out as an Exception that ends the run.

    SystemExit would stop the event loop of all user code. A CancelledError that nobody asked for
    (libraries leak them) would look like a lost worker, and the code would run again, for ever.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("It raised asyncio.CancelledError, but was not cancelled.") from error
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"It raised {type(error).__name__}: {text_of(error)}") from error


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncGenerator[asyncio.Timeout]:
    """As `asyncio.timeout`; the time in which a sync function waits for a thread does not count.

    That wait says nothing of the function, and is none at all unless others use up the threads.
    """
    async with asyncio.timeout(seconds) as limit:
        before = _limit.get()
        _limit.set(limit)
        try:
            yield limit
        finally:
            _limit.set(before)  # no `reset`: what is dropped unfinished ends in another context


async def _in_thread(work: Callable[[], T]) -> T:
    loop, limit = asyncio.get_running_loop(), _limit.get()
    left = _stop(limit)
    if limit is None or left is None:
        return await asyncio.to_thread(work)

    def timed() -> T:
        _limit.set(None)  # it is of another loop than the function may run one in
        loop.call_soon_threadsafe(_go_on, limit, loop.time() + left)
        return work()

    try:
        return await asyncio.to_thread(timed)
    finally:
        _go_on(limit, loop.time() + left)


def _stop(limit: asyncio.Timeout | None) -> float | None:
    """Stop a time limit; how many seconds are left of it, and None if it does not run."""
    until = limit.when() if limit is not None else None
    if limit is None or until is None:
        return None
    try:
        limit.reschedule(None)
    except RuntimeError:  # it has ended, by time or otherwise
        return None
    return until - asyncio.get_running_loop().time()


def _go_on(limit: asyncio.Timeout, until: float) -> None:
    """Let a time limit that was stopped run again."""
    if limit.when() is None:
        with suppress(RuntimeError):  # it has ended meanwhile
            limit.reschedule(until)


def _without_stop_iteration(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:  # no future can carry them
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised {type(error).__name__}.") from error
