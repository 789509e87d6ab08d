"""Coming to an end in good order: of async generators, and of work that is under way."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def closing(generator: AsyncGenerator[T, None]) -> AsyncGenerator[AsyncGenerator[T, None]]:
    """As `contextlib.aclosing`, but quiet when the whole chain of generators is collected.

    A worker that shuts down drops the workflows it has cached. Python then finalises their
    generators in any order, and an outer one must not await an inner one that is still suspended
    in an await of its own; there is nobody left to run it.
    """
    try:
        yield generator
    finally:
        if not getattr(generator, "ag_running", False):
            await generator.aclose()


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Finish some work although the task is cancelled meanwhile.

    The cancellation is not raised here. Whoever must heed it asks afterwards, as the event loop
    asks `Runtime.cancelled` after every event.
    """
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                return task.result()
