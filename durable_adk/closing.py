"""Coming to an end in good order: of async generators, and of work that is under way."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class closing(Generic[T]):  # noqa: N801 - as `contextlib.aclosing`
    """As `contextlib.aclosing`, but quiet when the whole chain of generators is collected.

    A worker that shuts down drops the workflows it has cached. Python then finalises their
    generators in any order, and an outer one must not await an inner one that is still suspended
    in an await of its own; there is nobody left to run it. For the same reason this is no generator
    itself: that one might be finalised before those on either side of it.
    """

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator

    async def __aenter__(self) -> AsyncGenerator[T, None]:
        """The generator."""
        return self._generator

    async def __aexit__(self, *_: object) -> None:
        """Close it, unless it is being run."""
        if not getattr(self._generator, "ag_running", False):
            await self._generator.aclose()


def abandoned(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a `finally` runs outside of the loop that ran its body.

    Then a worker has dropped a cached workflow and Python finalises what is left of it, wherever it
    happens to be: there is nothing to wait for, and nobody who could.
    """
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True


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
