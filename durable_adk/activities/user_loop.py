"""The event loop that user code in activities has to itself."""

import asyncio
import selectors
import sys
import threading
import traceback
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from durable_adk.log import get_logger

T = TypeVar("T")
BLOCKED = 1.0
"""Seconds after which a loop that does not turn is told of."""
_FRAMES = 5

logger = get_logger(__name__)


class UserLoop:
    """A thread with an event loop for user code.

    An async tool that blocks (`time.sleep`, `requests`) stops this loop, not the worker's: the
    heartbeats go on, so the server does not take the worker for dead and run the tool again.
    """

    def __init__(self, threads: int = 64) -> None:
        self._threads = threads
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._watch: Watch | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its end.

        Cancelling the wait cancels the work, and then waits on: work that finishes all the same,
        because it was committing, still has a result.
        """
        tasks: list[asyncio.Task[T]] = []
        cancelled = threading.Event()

        async def supervised() -> T:
            tasks.append(asyncio.ensure_future(work))
            if cancelled.is_set():  # before this loop came to it
                tasks[0].cancel()
            return await tasks[0]

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        loop = self._started()
        done = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(supervised(), loop))
        while True:
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                if done.done():
                    return done.result()
                cancelled.set()
                loop.call_soon_threadsafe(cancel)

    async def close(self) -> None:
        """Stop the thread, leaving behind sync functions that do not end."""
        if self._watch is not None:
            self._watch.stop()
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, 5.0)
        if not loop.is_running():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        """The loop; it begins with the first use, so who never runs anything has nothing open."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.set_default_executor(ThreadPoolExecutor(self._threads, "durable-adk-user"))
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="durable-adk-user-loop", daemon=True
            )
            self._thread.start()
            self._watch = Watch.over(self._loop, self._thread)
        return self._loop


@dataclass(kw_only=True)
class Watch:
    """Tells where the code is that keeps the loop from turning.

    All other steps of the worker wait for it meanwhile, and the server, which gets heartbeats,
    gives them to nobody else. So it has to be seen by somebody.
    """

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    _ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def over(cls, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> Self:
        """Begin to watch."""
        made = cls(loop=loop, thread=thread)
        threading.Thread(target=made._run, name="durable-adk-user-watch", daemon=True).start()
        return made

    def stop(self) -> None:
        """End it, at once or in a second."""
        self._ended.set()

    def _run(self) -> None:
        told = False
        while not self._ended.wait(BLOCKED):
            turned = threading.Event()
            try:
                self.loop.call_soon_threadsafe(turned.set)
            except RuntimeError:
                return  # it is closed
            if turned.wait(BLOCKED):
                told = False
            elif not told:
                told = self._tell()

    def _tell(self) -> bool:
        """Whether there was something to tell: a process that was frozen waits for events."""
        frame = sys._current_frames().get(self.thread.ident or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]: documented
        if frame is None or frame.f_code.co_filename == selectors.__file__:
            return False
        logger.warning(
            "user_loop.blocked",
            hint="An async tool, callback or model blocks all others of this worker. Make it a "
            "sync function, which runs in a thread, or use asyncio.to_thread.",
            stack="".join(traceback.format_stack(frame)[-_FRAMES:]),
        )
        return True
