"""How user code is called: sync or async, always without blocking the event loop."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from durable_adk.errors import text_of

T = TypeVar("T")


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; a sync one runs in a thread, so it may block (semantics OPEN-7, CB-3).

    Context variables are there in the thread too. What the function returns or raises is passed
    on; only StopIteration and GeneratorExit become a RuntimeError.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__  # an object with an async __call__
    ):
        return await function(*args, **kwargs)
    result = await asyncio.to_thread(_without_stop_iteration, function, *args, **kwargs)
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


def _without_stop_iteration(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:  # no future can carry them
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised {type(error).__name__}.") from error
