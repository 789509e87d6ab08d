"""Runs the code of several items of a parallel worker in one activity.

Each item is a step: it stores its output under its own id as it ends. A later attempt finds what
is stored and runs only the code of the other items.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from durable_adk.activities.attempt import ActivityAttempt
from durable_adk.activities.effect_rows import EffectRow
from durable_adk.activities.step_batch import FULL, MOST, Performer
from durable_adk.activities.tool.run import RetryLater
from durable_adk.calling.closing import uninterrupted
from durable_adk.errors import DurableAdkError, TransientError, as_detail, from_detail
from durable_adk.graph.retry_config import retry_of
from durable_adk.wire.checkpoint import BATCH_SECONDS
from durable_adk.wire.effect import Attempt
from durable_adk.wire.graph.batch import ItemsResult, ItemsStep
from durable_adk.wire.graph.node_run import NodeRef
from durable_adk.wire.graph.ranges import numbers_in
from durable_adk.wire.steps import NodeStep, StepResult

_ERRORS: Final = (DurableAdkError, RetryLater, MemoryError)


async def run_items(
    batch: ItemsStep,
    attempt: Attempt,
    performer: Performer,
    row_of: Callable[[Any], EffectRow[Any]],
) -> ItemsResult:
    """Run the items' code until the batch ends.

    It begins no further item once one asks a question or fails for good, at its limits, and when
    the worker shuts down. Those that run end first, but an item that fails for good cancels them.

    Args:
        batch: The batch.
        attempt: The activity's attempt.
        performer: Performs the steps.
        row_of: Returns a step's row of the table of effects.

    Raises:
        DurableAdkError: A step is to be retried.
        CancelledError: The worker shuts down during a step, which is retried elsewhere.
    """
    return await _Items(batch, attempt, performer, row_of).run()


class _Items:
    """One attempt."""

    def __init__(
        self,
        batch: ItemsStep,
        this: Attempt,
        performer: Performer,
        row_of: Callable[[Any], EffectRow[Any]],
    ) -> None:
        self._batch, self._this = batch, this
        self._performer, self._row_of = performer, row_of
        self._numbers = numbers_in(batch.items)
        self._result = ItemsResult()
        self._failure: BaseException | None = None
        """Why the attempt fails, and is retried."""
        self._ends_at = time.monotonic() + BATCH_SECONDS
        self._bytes = 0
        self._begun = False
        self._ending = False
        self._runners: list[asyncio.Task[None]] = []

    async def run(self) -> ItemsResult:
        """Run the items; see `run_items`."""
        self._runners = [
            asyncio.ensure_future(self._run_several()) for _ in range(self._batch.at_once)
        ]
        try:
            await asyncio.wait(self._runners)
        except asyncio.CancelledError:
            self._cancel()
            await uninterrupted(self._ended())
            if self._is_leaving:
                raise  # the next attempt finds what has finished
            # The workflow has requested it, and continues with what has finished.
        for runner in self._runners:
            if not (self._ending and runner.cancelled()):
                runner.result()
        if self._failure is not None:
            raise self._failure
        return self._result

    async def _ended(self) -> None:
        await asyncio.wait(self._runners)

    def _cancel(self) -> None:
        self._ending = True
        for runner in self._runners:
            if runner is not asyncio.current_task():
                runner.cancel()

    async def _run_several(self) -> None:
        while (number := self._next()) is not None:
            await self._run_one(number)

    def _next(self) -> int | None:
        """Return the next item, or None if no further one begins."""
        full = self._bytes >= FULL or time.monotonic() >= self._ends_at or self._is_leaving
        if self._ending or (full and self._begun):
            return None
        self._begun = True
        return next(self._numbers, None)

    async def _run_one(self, number: int) -> None:
        step = self._batch.step_of(number)
        try:
            result = await self._performer.perform(step, self._attempt_at(step))
        except _ERRORS as error:
            if isinstance(error, DurableAdkError) and not self._is_retried(error):
                self._result.failed[str(number)] = as_detail(error)
                self._fails(error)
                return
            self._failure = self._failure or error
            self._ending = True
            return
        self._record(number, step, result)

    def _attempt_at(self, step: NodeStep) -> Attempt:
        if not isinstance(self._this, ActivityAttempt):
            return self._this
        return replace(self._this, what=f"Node {step.node!r}", noted_in=step)

    def _is_retried(self, error: DurableAdkError) -> bool:
        if isinstance(self._this, ActivityAttempt):
            return self._this.retries(error, None)
        return isinstance(error, TransientError)

    @property
    def _is_leaving(self) -> bool:
        return isinstance(self._this, ActivityAttempt) and self._this.is_leaving

    def _record(self, number: int, step: NodeStep, result: StepResult) -> None:
        """Record a result; what is too large to be reported now is found in the store later."""
        plain = result.model_copy(update={"seq": None, "node": None}) == StepResult()
        output = result.node and result.node.output
        if plain and result.seq is not None and output == NodeRef(event=step.event_id):
            self._result.stored[str(number)] = result.seq
            return
        size = len(result.to_json().encode())
        if self._bytes and self._bytes + size > MOST:
            self._ending = True
            return
        self._bytes += size
        self._result.results[str(number)] = result
        if result.waits:
            self._ending = True  # GR-60
        if result.error is not None:
            self._fails(from_detail(result.error))

    def _fails(self, error: DurableAdkError) -> None:
        """Cancel the other items, unless this one is tried again."""
        if retry_of(self._batch.retry, error, 1) is None:
            self._cancel()
