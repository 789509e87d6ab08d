"""Runs the user code of activities in its own event loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from durable_adk.activities.user_code.threads import UserCodeThreads
from durable_adk.activities.user_code.watchdog import Watchdog
from durable_adk.calling.code_scope import (
    DISTURBED,
    CodeTask,
    can_keep_running,
    keep_running,
    protect_tasks,
    runtime_context,
)
from durable_adk.errors import WorkerStuckError, text_of
from durable_adk.log import get_logger
from durable_adk.settings import Limits

T = TypeVar("T")
SPARE = 32
"""Threads in addition to one per step, for steps that use several at once."""
OBEY = 30.0
"""Seconds in which cancelled work must end before it is abandoned."""
_OBEY_HINT = "Code that catches asyncio.CancelledError has to raise it again."
_POLICY_HINT = (
    "User code can end this event loop, and the worker with it. Let the worker have asyncio's own "
    "event loop policy."
)

logger = get_logger(__name__)


class UserCodeLoop:
    """A thread with an event loop for user code, and a thread pool for its sync functions.

    An async tool that blocks (`time.sleep`, `requests`) blocks this loop, not the worker's.
    Heartbeats continue, so the server does not consider the worker dead and run the tool again. If
    the tool blocks for too long, or too many sync functions outlive their steps, the loop is
    `stuck`.

    Args:
        limits: Timeouts and the maximum number of stuck threads.
        workflow_threads: Threads of workflow code to include in the count.
    """

    def __init__(
        self, limits: Limits | None = None, workflow_threads: UserCodeThreads | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._workflow_threads = workflow_threads
        self._runs: set[_Run[Any]] = set()
        self._threads = UserCodeThreads(lambda: len(self._runs) + SPARE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callers_loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._watch: Watchdog | None = None
        self._ends = threading.Event()
        self._stuck = asyncio.Event()
        self._reason = ""

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started on first use, so that an unused instance opens no resources."""
        if self._loop is None:
            self._callers_loop = asyncio.get_running_loop()
            self._loop = asyncio.new_event_loop()
            if not can_keep_running(self._loop):
                logger.warning("user_loop.unprotected", loop=repr(self._loop), hint=_POLICY_HINT)
            self._loop.set_default_executor(self._threads)
            self._thread = threading.Thread(
                target=self._run_loop, args=[self._loop], name="durable-adk-user-loop", daemon=True
            )
            self._thread.start()
            self._watch = Watchdog(
                loop=self._loop,
                thread=self._thread,
                pools=[one for one in (self._threads, self._workflow_threads) if one is not None],
                limits=self._limits,
                watched=self,
            )
            self._watch.start()
        return self._loop

    async def stuck(self) -> WorkerStuckError:
        """Wait until user code blocks the loop or its threads permanently; return the reason."""
        await self._stuck.wait()
        return WorkerStuckError(self._reason)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the user loop and wait for its end.

        Cancelling the wait cancels the work and then keeps waiting: work that finishes anyway,
        because it was committing, still has a result.

        Raises:
            WorkerStuckError: Other user code blocks the loop, or has blocked it for too long.
        """
        loop = self.start()
        if self._reason or (self._watch is not None and self._watch.is_blocked):
            work.close()
            raise WorkerStuckError(self._reason or None)
        run: _Run[T] = runtime_context().run(_Run, loop, work)
        self._runs.add(run)
        try:
            return await run.outcome()
        finally:
            self._runs.remove(run)

    async def close(self) -> None:
        """Stop the thread and abandon code that does not end."""
        if self._watch is not None:
            self._watch.stop()
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        for run in self._runs:
            run.abandon()
        if not self._ends.is_set():
            loop.call_soon_threadsafe(self._end, loop)
        if not self._reason:
            await asyncio.to_thread(thread.join, 5.0)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ends.set()
        loop.stop()

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop in its thread until `close`, even if user code stops it meanwhile."""
        # The loop and its tasks are closed here: it may stop long after all callers have left.
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            keep_running(runner.get_loop(), whoever=True)
            protect_tasks(loop)
            try:
                while not self._ends.is_set():
                    loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - the worker ends for it
                self._ends.set()
                ended = f"The event loop of user code ended with {type(error).__name__}"
                self.loop_stuck(f"{ended}: {text_of(error)}", None)

    # ----- WatchdogListener, called in the watchdog's thread

    def loop_blocked(self) -> None:
        """See `WatchdogListener`; returns steps that have not started."""
        self._call(self._give_back_waiting)

    def loop_stuck(self, reason: str, task: asyncio.Task[Any] | None) -> None:
        """See `WatchdogListener`; returns all steps, because none can finish."""
        self._declare(reason)
        self._call(self._give_back_all, task)

    def threads_stuck(self, reason: str) -> None:
        """See `WatchdogListener`; running steps may still finish normally."""
        self._declare(reason)

    def _declare(self, reason: str) -> None:
        if not self._reason:
            self._reason = reason
            logger.error("worker.stuck", reason=reason)
            self._call(self._stuck.set)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        if self._callers_loop is not None:
            with suppress(RuntimeError):  # the caller's loop is closed
                self._callers_loop.call_soon_threadsafe(function, *args)

    def _give_back_waiting(self) -> None:
        for run in self._runs:
            if not run.has_begun:
                run.give_back(WorkerStuckError())

    def _give_back_all(self, suspect: asyncio.Task[Any] | None) -> None:
        # The code runs in a task that has the name of its step's task (`contained`).
        name = suspect.get_name() if suspect else None
        guilty = {run for run in self._runs if run.task and run.task.get_name() == name}
        for run in self._runs:
            error = WorkerStuckError(self._reason)
            error.suspected = run.has_begun and (run in guilty or not guilty)
            run.give_back(error)


class _Run(Generic[T]):
    """A coroutine in the user loop whose outcome is awaited in another loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.task: asyncio.Task[T] | None = None
        """The task that runs the coroutine, once the loop has created it."""
        self.has_begun = False
        """Whether the coroutine has started running."""
        self._given_back: WorkerStuckError | None = None
        self._cancelled = threading.Event()
        self._loop = loop
        self._done = asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._supervised(work), loop)
        )

    async def outcome(self) -> T:
        """Wait for the result, as described in `UserCodeLoop.run`."""
        timeout = None
        while not self._done.done():
            try:
                await asyncio.wait([self._done], timeout=timeout)
            except asyncio.CancelledError:
                timeout = OBEY
                self._cancel()
            else:
                if not self._done.done():
                    logger.warning("user_task.outlives_step", hint=_OBEY_HINT)
                    self.abandon()
        if self._given_back is not None:
            raise self._given_back
        return self._result()

    def _result(self) -> T:
        """Return the result of the work.

        A cancellation that neither the caller nor the step's own code requested may be meant for
        other code: the step is retried, and the attempt counts as lost.
        """
        try:
            return self._done.result()
        except asyncio.CancelledError as cancelled:
            task = self.task
            known = isinstance(task, CodeTask) and task.is_cancelled_by_code
            if known or self._cancelled.is_set():
                raise
            error = WorkerStuckError(DISTURBED)
            error.suspected = True
            raise error from cancelled

    def give_back(self, error: WorkerStuckError) -> None:
        """End the wait with an error."""
        if not self._done.done():
            self._given_back = error
            self.abandon()

    def abandon(self) -> None:
        """End the wait; the work is cancelled if the loop ever continues."""
        self._cancel()
        self._done.cancel()

    async def _supervised(self, work: Coroutine[Any, Any, T]) -> T:
        self.task = asyncio.ensure_future(self._begun(work))
        if self._cancelled.is_set():  # cancelled before this loop created the task
            self.task.cancel()
        try:
            return await self.task
        finally:
            if not self.has_begun:
                work.close()

    async def _begun(self, work: Coroutine[Any, Any, T]) -> T:
        self.has_begun = True
        return await work

    def _cancel(self) -> None:
        self._cancelled.set()
        if self.task is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.task.cancel)
