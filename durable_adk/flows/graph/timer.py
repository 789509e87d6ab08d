"""The time of an attempt of a node, without the time in which it waits for answers."""

import asyncio
from collections.abc import Callable

from durable_adk.wire.graph.node_run import NodeRun


class NodeTimer:
    """Ends an attempt when its time is up.

    What is left is in the run's position, so that it survives continue-as-new. All times come from
    the workflow, so each replay has the same ones.
    """

    def __init__(self, run: NodeRun, timeout: float | None, now: Callable[[], float]) -> None:
        """Create it.

        Args:
            run: The run, whose position it changes.
            timeout: Seconds that an attempt may take; None: as many as it likes.
            now: Returns the time in seconds since the epoch.
        """
        self.limit = asyncio.timeout(None)
        """To be entered before `start`, which it outlasts."""
        self._run = run
        self._timeout = timeout
        self._now = now
        self._busy = 1
        self._over = False

    @property
    def is_limited(self) -> bool:
        """Whether the attempt may not take as long as it likes."""
        return self._timeout is not None

    def start(self) -> None:
        """Let the time run."""
        run = self._run
        if self._timeout is None:
            self._over = True
            return
        if run.due is None and run.left is None:
            run.left = self._timeout
        self._go()

    def count(self, branches: int) -> None:
        """Count branches of the attempt that begin, or no longer, to do something but wait."""
        waited = self._busy == 0
        self._busy += branches
        if self._over or self.limit.expired() or waited is (self._busy == 0):
            return
        if waited:
            self._go()
        elif self._run.due is not None:
            self._run.left, self._run.due = max(self._run.due - self._now(), 0.0), None
            self.limit.reschedule(None)

    def end(self) -> None:
        """Let the position have no time: the next attempt has all of it again."""
        self._over = True
        self._run.due = self._run.left = None

    def _go(self) -> None:
        run, now = self._run, self._now()
        if run.left is not None:
            run.due, run.left = now + run.left, None
        left = max((run.due or now) - now, 0.0)
        self.limit.reschedule(asyncio.get_running_loop().time() + left)
