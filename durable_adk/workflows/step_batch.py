"""The outcomes of a batch of steps, which the workflow's loop takes one by one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from durable_adk.errors import from_detail
from durable_adk.wire.checkpoint import StepBatch, StepBatchResult, StepOutcome, step_name
from durable_adk.wire.steps import CloseStep, CommitStep, HookStep, Step, StepResult

Observe = Callable[[Any, StepOutcome], None]
OBSERVER: ContextVar[Observe | None] = ContextVar("observer", default=None)
"""Sees the steps whose outcomes the loop takes from batches, in a replay that sets it."""


class BatchOutcomes:
    """Implements `StepBatches` inside a workflow. Replay-safe: all it knows is recorded.

    Args:
        perform: Runs the batch's activity.
    """

    def __init__(self, perform: Callable[[StepBatch], Awaitable[StepBatchResult]]) -> None:
        self._perform = perform
        self._left: dict[str, StepOutcome] = {}
        """Outcomes that the loop has not taken yet, by `step_name`."""
        self.now = 0.0
        """When the last step ended that the loop has taken, in seconds since the epoch."""

    @property
    def is_ahead(self) -> bool:
        """Whether outcomes are left."""
        return bool(self._left)

    async def run(self, batch: StepBatch) -> None:
        """Run the batch's activity, and keep the outcomes."""
        done = await self._perform(batch)
        self._left = {outcome.name: outcome for outcome in done.outcomes}
        self.now = done.began

    def take(self, step: object) -> StepOutcome | None:
        """Return the outcome of a step; None: it has to be performed.

        If the loop takes another path than the batch, because it is to end, the other outcomes are
        dropped: what the batch has done is in the store, and a step performed again finds it.
        """
        is_answers = isinstance(step, HookStep) and step.hook == "on_user_message_callback"
        if isinstance(step, CloseStep):
            self._left.clear()
        if not self._left or is_answers or not isinstance(step, Step | CommitStep):
            return None
        outcome = self._left.pop(step_name(step), None)
        if outcome is None:
            self._left.clear()
        else:
            self.now = outcome.at
        return outcome


def taken(step: object, outcome: StepOutcome) -> StepResult | int | None:
    """Return or raise what a step of a batch has returned or raised."""
    if (observe := OBSERVER.get()) is not None:
        observe(step, outcome)
    if outcome.cancelled:
        raise asyncio.CancelledError
    if outcome.error is not None:
        raise from_detail(outcome.error)
    return outcome.seq if outcome.result is None else outcome.result
