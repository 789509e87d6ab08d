"""The thread pool for synchronous user code."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
IDLE = 10.0
"""Seconds of inactivity after which a thread exits."""


class UserCodeThreads(ThreadPoolExecutor):
    """A pool that replaces threads that outlive the steps they ran for.

    Python cannot stop a thread. A thread that hangs after its step was abandoned would occupy the
    pool permanently, so it no longer counts toward the pool's size; `outliving` reports it. All
    threads are daemons, so they do not prevent the process from exiting.

    The base class, whose threads have neither property, is used only because an event loop accepts
    no other executor.

    Args:
        room: Returns the maximum number of active threads; called at each submission.
        name: Prefix of the threads' names.
        max_outliving: Threads that may outlive their calls before the worker is stuck; None: this
            pool sets no limit.
    """

    def __init__(
        self,
        room: Callable[[], int],
        name: str = "durable-adk-user",
        *,
        max_outliving: int | None = None,
    ) -> None:
        super().__init__(1, name)
        self.max_outliving = max_outliving
        self._name = name
        self._room = room
        self._changed = threading.Condition()
        self._queue: deque[ThreadCall] = deque()
        self._running: set[ThreadCall] = set()
        self._outliving: set[ThreadCall] = set()
        self._threads_alive = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See base class."""
        call = ThreadCall(self, partial(fn, *args, **kwargs))
        with self._changed:
            if self._closed:
                raise RuntimeError("This worker is closed; it runs no sync code any more.")
            self._queue.append(call)
            self._staff()
        return call

    def outliving(self, seconds: float = 0.0) -> "list[ThreadCall]":
        """Return the calls that still run at least `seconds` after they were abandoned."""
        until = time.monotonic() - seconds
        with self._changed:
            return [call for call in self._outliving if call.left_at <= until]

    def left(self, call: "ThreadCall") -> None:
        """Mark a call as abandoned; if it is running, another thread may take its slot."""
        with self._changed:
            if call in self._running:
                self._running.remove(call)
                self._outliving.add(call)
                call.left_at = time.monotonic()
                self._staff()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. Does not wait: a hanging call would block the shutdown forever."""
        del wait
        with self._changed:
            self._closed = True
            dropped = [*self._queue] if cancel_futures else []
            self._changed.notify_all()
        for call in dropped:
            call.cancel()

    def _staff(self) -> None:
        """Start as many threads as the calls need; the caller must hold the lock."""
        wanted = min(self._room(), len(self._running) + len(self._queue)) + len(self._outliving)
        while self._threads_alive < wanted:
            name = f"{self._name}-{self._threads_alive}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
            self._threads_alive += 1
        self._changed.notify(len(self._queue))

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            with self._changed:
                self._running.discard(call)
                self._outliving.discard(call)
                self._staff()
            del call  # otherwise its result stays in memory until the next call

    def _next(self) -> "ThreadCall | None":
        """Return the next call to run, or None if this thread should exit."""
        with self._changed:
            while self._changed.wait_for(self._is_due, IDLE) and self._queue:
                call = self._queue.popleft()
                if call.set_running_or_notify_cancel():
                    self._running.add(call)
                    return call
            self._threads_alive -= 1
            return None

    def _is_due(self) -> bool:
        return self._closed or (bool(self._queue) and len(self._running) < self._room())


class ThreadCall(Future[Any]):
    """A call that runs in a thread of the pool."""

    thread: int = 0
    """Identifier of the thread that runs the call."""
    left_at: float = 0.0
    """Time at which the call was abandoned, by the monotonic clock."""
    reported: bool = False
    """Whether a warning was logged that the call outlives its step."""

    def __init__(self, threads: UserCodeThreads, work: Callable[[], Any]) -> None:
        super().__init__()
        self._threads = threads
        self._work = work

    def cancel(self) -> bool:
        """See base class; asyncio calls this when the task that awaits the call is cancelled."""
        if super().cancel():
            return True
        self._threads.left(self)
        return False

    def run(self) -> None:
        """Run the call in this thread and store its result or exception."""
        self.thread = threading.get_ident()
        work = self._work
        del self._work
        try:
            self.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the awaiting task gets it
            self.set_exception(error)
        finally:
            del self, work  # the error's traceback references this frame
