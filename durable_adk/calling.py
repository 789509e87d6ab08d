"""How user code is called: sync or async, always without blocking the event loop."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; a sync one runs in a thread, so it may block (semantics OPEN-7, CB-3).

    Context variables are there in the thread too. What the function returns or raises is passed
    on; only StopIteration, which no future can carry, becomes a RuntimeError.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__  # an object with an async __call__
    ):
        return await function(*args, **kwargs)
    result = await asyncio.to_thread(_without_stop_iteration, function, *args, **kwargs)
    # A sync wrapper round an async function returns the coroutine.
    return await result if inspect.isawaitable(result) else result


def _without_stop_iteration(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised StopIteration.") from error
