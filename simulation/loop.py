"""An event loop whose time is data: it runs what is ready and never sleeps."""

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Clock:
    """The time of a simulation, in seconds since the epoch; stands in for module `time` too.

    Args:
        skew: By how much the clock of the worker whose code is running is off (I3).
    """

    START = 1_700_000_000.0

    def __init__(self, skew: Callable[[], float] = float) -> None:
        self.now = self.START
        self._skew = skew

    def time(self) -> float:
        """As `time.time`, of a worker."""
        return self.now + self._skew()

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return self.now


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs tasks on request, in the order in which they became ready."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def time(self) -> float:
        """The simulation's time."""
        return self._clock.now

    @contextmanager
    def running(self) -> Generator[None]:
        """Be the running loop."""
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)

    def drain(self) -> None:
        """Run ready callbacks until there are none."""
        ready = self._ready
        with self.running():
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()

    def next_timer(self) -> float | None:
        """When the next timer is due."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        return timers[0]._when if timers else None

    def fire(self) -> None:
        """Make the timers ready that are due."""
        while (due := self.next_timer()) is not None and due <= self._clock.now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._ready.append(handle)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run a sync function here and now: no threads."""
        del executor
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the future's
            future.set_exception(error)
        return future

    def _process_events(self, event_list: Any) -> None:
        """There is no I/O."""

    def _write_to_self(self) -> None:
        """There is no other thread."""
