"""Orderly ends for async generators and for work in progress."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class closing(Generic[T]):  # noqa: N801 - as `contextlib.aclosing`
    """Like `contextlib.aclosing`, but silent when a whole chain of generators is collected.

    A worker that shuts down drops its cached workflows. Python then finalizes their generators in
    any order, and an outer one must not await an inner one that is still suspended in an await of
    its own, because no event loop is left to run it. For the same reason this is a class and not a
    generator, which might be finalized before the generators on either side of it.
    """

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator

    async def __aenter__(self) -> AsyncGenerator[T, None]:
        """Return the generator."""
        return self._generator

    async def __aexit__(self, *_: object) -> None:
        """Close the generator unless it is running."""
        if not getattr(self._generator, "ag_running", False):
            await self._generator.aclose()


def abandoned(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a `finally` block runs outside the event loop that ran its body.

    Then a worker has dropped a cached workflow, and Python finalizes its remains at an arbitrary
    point: nothing can be awaited.
    """
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Finish some work even if the current task is cancelled meanwhile.

    The cancellation is not raised here. Callers that must react to it check afterwards, as the
    event loop checks `Runtime.cancelled` after every event.
    """
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                return task.result()
