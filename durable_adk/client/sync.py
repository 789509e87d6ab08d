"""An async iteration for callers without an event loop."""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, suppress
from typing import TypeVar

T = TypeVar("T")


def iterate(make: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
    """Yield what an async generator yields; it runs in a thread with an event loop of its own.

    So it works inside a running loop too (TRAP-46). What it raises is raised here. Closing this
    generator early closes that one.
    """
    items: queue.Queue[T | BaseException | None] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    async def pump() -> None:
        async with aclosing(make()) as values:
            async for value in values:
                await asyncio.to_thread(items.put, value)
                if stopped.is_set():
                    return

    def work() -> None:
        try:
            asyncio.run(pump())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            items.put(error)
        else:
            items.put(None)

    thread = threading.Thread(target=work, name="durable-adk-run", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        while thread.is_alive():
            with suppress(queue.Empty):
                items.get(timeout=0.05)  # the thread may be about to put one more
        thread.join()
