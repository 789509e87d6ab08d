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
"""Seconds without work after which a thread ends."""


class UserCodeThreads(ThreadPoolExecutor):
    """A pool that replaces the threads which outlive the steps they ran for.

    Python cannot end a thread. One that hangs after its step was given up would take a place of the
    pool for good, so it takes none any more, and is counted instead: see `outliving`. All threads
    are daemons, so that they keep no process from ending.

    Only the class is the base's, because an event loop accepts no other: its own threads have
    neither property.

    Args:
        room: How many threads may run for somebody at a time; asked at each submission.
        name: Prefix of the threads' names.
    """

    def __init__(self, room: Callable[[], int], name: str = "durable-adk-user") -> None:
        super().__init__(1, name)
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
        """The calls that still run, so many seconds after nobody waited for them any more."""
        until = time.monotonic() - seconds
        with self._changed:
            return [call for call in self._outliving if call.left_at <= until]

    def left(self, call: "ThreadCall") -> None:
        """Nobody waits for a call any more; if it runs, another thread takes its place."""
        with self._changed:
            if call in self._running:
                self._running.remove(call)
                self._outliving.add(call)
                call.left_at = time.monotonic()
                self._staff()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. It waits for none: what hangs would never let it go."""
        del wait
        with self._changed:
            self._closed = True
            dropped = [*self._queue] if cancel_futures else []
            self._changed.notify_all()
        for call in dropped:
            call.cancel()

    def _staff(self) -> None:
        """Have as many threads as the calls need; the lock is held."""
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
            del call  # or its result lives until the next one comes

    def _next(self) -> "ThreadCall | None":
        """The call to run; None: there is no more for this thread to do."""
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
    """A call in a thread."""

    thread: int = 0
    """Of the thread that runs it."""
    left_at: float = 0.0
    """When nobody waited for it any more, by the monotonic clock."""
    reported: bool = False
    """Whether it has been logged that it outlives its step."""

    def __init__(self, threads: UserCodeThreads, work: Callable[[], Any]) -> None:
        super().__init__()
        self._threads = threads
        self._work = work

    def cancel(self) -> bool:
        """See base class: asyncio asks for this when whoever awaits the call is cancelled."""
        if super().cancel():
            return True
        self._threads.left(self)
        return False

    def run(self) -> None:
        """Run it here, and keep what it returns or raises."""
        self.thread = threading.get_ident()
        work = self._work
        del self._work
        try:
            self.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever awaits it is told
            self.set_exception(error)
        finally:
            del self, work  # the error's traceback has this frame
