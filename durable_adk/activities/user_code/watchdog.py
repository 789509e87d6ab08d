"""Detects user code that blocks a worker, and reports the line that blocks."""

import asyncio
import os
import selectors
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from durable_adk.activities.user_code.threads import ThreadCall, UserCodeThreads
from durable_adk.errors import text_of
from durable_adk.log import get_logger
from durable_adk.settings import Limits

LOOK = 1.0
"""Seconds between two checks; a loop that does not run for this long is reported as blocked."""
REFUSE = 3.0
"""Seconds after which a blocked loop gets no new steps: another worker may have capacity."""
FRAMES = 5
_OURS = f"{Path(__file__).parents[2]}{os.sep}"
_MACHINERY = {threading.__file__, asyncio.base_events.__file__, asyncio.events.__file__}
"""Files of the standard library that run the code of a thread or of a loop."""

logger = get_logger(__name__)


class WatchdogListener(Protocol):
    """Receives the watchdog's findings, in the watchdog's thread."""

    def loop_blocked(self) -> None:
        """Report that the loop has not run for `REFUSE` seconds."""

    def loop_stuck(self, reason: str, task: "asyncio.Task[Any] | None") -> None:
        """Report that the loop has not run for `Limits.blocked_timeout`, with its current task.

        Also called when the watchdog can no longer watch it.
        """

    def threads_stuck(self, reason: str) -> None:
        """Report that too many threads outlive their steps.

        Too many for `Limits.max_stuck_threads`, or for a pool's `max_outliving`.
        """


@dataclass(kw_only=True)
class Watchdog:
    """Checks an event loop and thread pools once a second, from its own thread.

    The worker's heartbeats continue whatever user code does, so the server would never reassign
    its steps: the worker has to detect by itself that it cannot run them.
    """

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    """The loop's thread."""
    pools: Sequence[UserCodeThreads]
    limits: Limits
    watched: WatchdogListener
    blocked_for: float = 0.0
    """Seconds since the loop last ran, counted in checks: a frozen process adds only one."""
    _turned: threading.Event | None = field(default=None)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_blocked(self) -> bool:
        """Whether the loop has not run for `REFUSE` seconds."""
        return self.blocked_for >= REFUSE

    def start(self) -> None:
        """Start the watchdog's thread."""
        threading.Thread(target=self._run, name="durable-adk-watch", daemon=True).start()

    def stop(self) -> None:
        """Stop the watchdog's thread; it exits within a second."""
        self._ended.set()

    def _run(self) -> None:
        try:
            while not self._ended.wait(LOOK):
                self._look_at_loop()
                self._look_at_threads()
        except BaseException as error:  # noqa: BLE001 - the worker ends for it
            if not self._ended.is_set():  # otherwise the loop may be closed
                why = f"The watchdog of user code ended with {type(error).__name__}"
                self.watched.loop_stuck(f"{why}: {text_of(error)}", None)

    def _look_at_loop(self) -> None:
        if self._turned is not None and not self._turned.is_set():
            where = stack_lines(self.thread.ident)
            if where:  # otherwise the loop is about to run: only the process was frozen
                self._still_blocked(where)
            return
        self.blocked_for = 0.0
        self._turned = threading.Event()
        self.loop.call_soon_threadsafe(self._turned.set)

    def _still_blocked(self, where: list[str]) -> None:
        before, self.blocked_for = self.blocked_for, self.blocked_for + LOOK
        limit = self.limits.blocked_timeout
        hint = _IMPORT_HINT if _imports(self.thread.ident) else _ASYNC_HINT
        if before == 0:
            logger.warning("user_loop.blocked", hint=hint, at=where[0], stack=where)
        if self.blocked_for >= limit > before:
            task = asyncio.current_task(self.loop)
            self.watched.loop_stuck(
                f"User code has blocked the event loop for {limit:g} s (blocked_timeout) at "
                f"{where[0]}. {hint}",
                task,
            )
        elif self.is_blocked:
            self.watched.loop_blocked()

    def _look_at_threads(self) -> None:
        late = [call for pool in self.pools for call in pool.outliving(LOOK)]
        for call in late:
            where = stack_lines(call.thread)
            if where and not call.reported:
                call.reported = True
                logger.warning(
                    "user_thread.outlives_step",
                    hint=_SYNC_HINT,
                    at=where[0],
                    stack=where,
                    threads=len(late),
                )
        limit = self.limits.max_stuck_threads
        if len(late) > limit:
            self.watched.threads_stuck(
                f"{len(late)} threads still run user code of steps that have ended "
                f"(max_stuck_threads is {limit}), one of them at {_place(late)}. {_SYNC_HINT}"
            )
        for pool in self.pools:
            blocked = pool.outliving(LOOK)
            if pool.max_outliving is not None and len(blocked) > pool.max_outliving:
                self.watched.threads_stuck(
                    f"{len(blocked)} custom agents block their workflows, and the worker has too "
                    f"few workflow tasks left (max_concurrent_workflow_tasks); one of them is at "
                    f"{_place(blocked)}. {_SYNC_HINT}"
                )


_ASYNC_HINT = (
    "All other steps of this worker wait for it. Make the tool, callback or model a sync function, "
    "which runs in a thread, or use asyncio.to_thread."
)
_IMPORT_HINT = (
    "It imports a module for the first time, and all other steps of this worker wait for it. "
    "Import that where your agent is defined, so that it is there before the first message."
)
_SYNC_HINT = "No thread can be ended from outside: give what the code waits for a timeout."


def _place(calls: Sequence[ThreadCall]) -> str:
    """Return the line of user code in which one of the calls is."""
    return next((found[0] for call in calls[::-1] if (found := stack_lines(call.thread))), "?")


def stack_lines(thread: int | None) -> list[str]:
    """Return a thread's stack: the user's outermost line and the innermost ones, without values.

    Returns:
        Texts such as ``/app/agent.py:12 in lookup``. Empty for a loop that waits for events, and
        for a thread that has ended.
    """
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]: documented
    if frame is None or _waits_for_events(frame):
        return []
    stack = [(one.f_code, line) for one, line in traceback.walk_stack(frame)][::-1]
    ours = [n for n, (code, _) in enumerate(stack) if code.co_filename.startswith(_OURS)]
    rest = stack[max(ours, default=-1) + 1 :]
    theirs = [*dropwhile(lambda one: one[0].co_filename in _MACHINERY, rest)] or stack[-1:]
    shown = theirs[:1] + theirs[1:][-FRAMES:]
    return [f"{code.co_filename}:{line} in {code.co_name}" for code, line in shown]


def _imports(thread: int | None) -> bool:
    """Return whether a thread is importing a module."""
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]: documented
    walked = traceback.walk_stack(frame) if frame else ()
    return any("importlib._bootstrap" in one.f_code.co_filename for one, _ in walked)


def _waits_for_events(frame: FrameType) -> bool:
    """Return whether the event loop itself waits, and not user code with its own selector."""
    caller = frame.f_back
    return (
        frame.f_code.co_filename == selectors.__file__
        and caller is not None
        and caller.f_code.co_filename == asyncio.base_events.__file__
    )
