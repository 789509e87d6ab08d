"""Runs the loop inside one activity: the same loop, effects, event ids and commits.

A batch ends between two steps: before a step that needs the workflow or an activity of its own, and
at its limits. The loop is abandoned there, and the workflow continues with the outcomes so far.

A step that Temporal would retry fails the batch's attempt in the same way. The next attempt runs
the same loop again. It finds the finished steps in the store, performs the first unfinished one as
that step's next attempt, and ends: so a step has as many attempts as with an activity of its own.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from google.genai import types

from durable_adk.activities.attempt import ActivityAttempt
from durable_adk.activities.effect_rows import CodeEffect, EffectRow
from durable_adk.activities.fence import FENCE, fence_of, raise_fence
from durable_adk.activities.in_process import InProcess
from durable_adk.activities.tool.run import RetryLater
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.calling.closing import uninterrupted
from durable_adk.errors import DurableAdkError, as_detail
from durable_adk.flows.agent_scope import Branches
from durable_adk.flows.event_loop import drive
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.state import LoopState
from durable_adk.log import get_logger
from durable_adk.retrying import STORE_TIMEOUT, retrying
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import (
    BATCH_SECONDS,
    StepBatch,
    StepBatchResult,
    StepOutcome,
    step_name,
)
from durable_adk.wire.effect import Attempt, Effect
from durable_adk.wire.messages import MAX_BYTES, InvocationRequest, InvocationResult
from durable_adk.wire.steps import CommitStep, ModelStep, NodeStep, Step, StepResult, ToolStep
from durable_adk.wire.tool_contract import ToolContract

logger = get_logger(__name__)

R = TypeVar("R")
FULL: Final = 256_000
"""Bytes of outcomes after which a batch ends."""
MOST: Final = 3 * MAX_BYTES // 2
"""Bytes of outcomes that one activity may report; Temporal's limit is 2 MiB (1c). Only the calls of
one turn can exceed it, and then their responses are stored, or noted."""


class Performer(Protocol):
    """Performs single effects; see `effects.EffectPerformer`."""

    async def perform(self, step: Effect[R], attempt: Attempt | None = None) -> R:
        """Perform one attempt."""
        ...


@dataclass(frozen=True, kw_only=True)
class _StepAttempt(ActivityAttempt):
    """The activity's attempt, for one of its steps."""

    on_begin: Callable[[], None]
    """Called when the step's code is about to run: its result is not in the store."""

    async def begins(self) -> None:
        """See base class."""
        self.on_begin()
        await super().begins()


class BatchRuntime(InProcess):
    """Implements `Runtime` inside an activity, until the batch ends.

    Args:
        batch: The batch.
        this: The activity's attempt.
        performer: Performs the steps.
        row_of: Returns a step's row of the table of effects.
    """

    rolls = ends_in_time = False

    def __init__(
        self,
        batch: StepBatch,
        this: ActivityAttempt,
        performer: Performer,
        row_of: Callable[[Any], EffectRow[Any]],
    ) -> None:
        super().__init__()
        self._batch, self._this = batch, this
        self._performer, self._row_of = performer, row_of
        self.began = self.now()
        self.outcomes: list[StepOutcome] = []
        self.failure: DurableAdkError | RetryLater | MemoryError | None = None
        """Why the attempt fails, and is retried by Temporal."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set when no step runs and none begins any more."""
        self.branches: Branches | None = None
        """Those of the loop, once it is there."""
        self._ends_at = time.monotonic() + BATCH_SECONDS
        self._running = 0
        self._bytes = 0
        self._begun = False
        """Whether the code of a step has begun to run."""
        self._ending = False
        self._abandoned = asyncio.Event()

    # ----- the loop's inputs

    def cancelled(self) -> bool:
        """Return False: a cancellation ends the batch, and the workflow decides."""
        return False

    def fullness(self) -> float:
        """Return 0: a batch does not continue as new."""
        return 0.0

    def agent(self, app: str, name: str) -> BaseAgent:
        """End the batch: the workflow runs the code of custom agents."""
        del app, name
        self._ending = True
        self._end_if_idle()
        raise asyncio.CancelledError

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """End the batch: the workflow runs the child."""
        del request
        raise await self._end()

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """End the batch: the workflow runs the activity."""
        del step, call
        raise await self._end()

    async def leave_batch(self) -> None:
        """End the batch."""
        raise await self._end()

    async def perform(self, step: Effect[R]) -> R:
        """Perform a step, and record its outcome; end the batch if it must not be performed."""
        row = self._row_of(step)
        if self._is_ending or await self._ends_before(step, row) or self._is_ending:
            raise await self._end()
        if isinstance(step, Step):
            step = cast("Effect[R]", step.model_copy(update={"batched": True}))
        name = step_name(step)
        self._running += 1
        try:
            done = await self._performer.perform(step, self._attempt_at(step, row))
        except asyncio.CancelledError:
            if not self._abandoned.is_set():  # else the workflow cancels it, or repeats it
                self._record(StepOutcome(name=name, at=self.now(), cancelled=True))
            raise
        except (RetryLater, MemoryError) as error:
            self.failure = self.failure or error
        except DurableAdkError as error:
            if not self._is_retried(row, error):
                self._record(StepOutcome(name=name, at=self.now(), error=as_detail(error)))
                raise
            self.failure = self.failure or error
        else:
            self._record(_completed(StepOutcome(name=name, at=self.now()), done))
            return done
        finally:
            self._running -= 1
            self._end_if_idle()
        raise await self._end()

    # ----- its end

    async def _ends_before(self, step: Effect[Any], row: EffectRow[Any]) -> bool:
        """Return whether the step must not be performed here, or the batch is at a limit."""
        match step:
            case CommitStep():
                return False  # it belongs to a step that was performed
            case Step() if isinstance(row, CodeEffect):
                pass
            case _:
                return True
        opened = self._batch.checkpoint.opened
        if (
            # Nodes side by side have activities side by side, and their order decides.
            (step.site is not None and self.branches is not None and self.branches.busy > 1)
            or step.attempt_timeout > self._batch.step_timeout
            or row.is_large(step)
            or row.task_queue(step, opened.model_task_queues or {}) is not None
            or (isinstance(step, ToolStep) and step.spec is not None and step.spec.apart)
            or (isinstance(step, NodeStep) and step.contract is ToolContract.AT_MOST_ONCE)
        ):
            return True
        if self._running:
            return False  # another call of the same turn
        return (
            len(self.outcomes) >= self._batch.max_steps
            or self._bytes >= FULL
            or time.monotonic() >= self._ends_at
            or (self._begun and self._this.number > 1)
            or self._this.is_leaving
            # An answer may arrive, and the next model call or node must see it.
            or (isinstance(step, ModelStep | NodeStep) and bool(self.inbox.state.waiting))
            or (bool(self.outcomes) and not await self._may_go_ahead())
        )

    async def _may_go_ahead(self) -> bool:
        """Return whether no later attempt runs, and no message waits for the active invocation.

        Only the workflow can deliver such a message, before the next model call.
        """
        look = retrying(self._this.deps.sessions.may_go_ahead, STORE_TIMEOUT)
        try:
            return await look(
                self._batch.key,
                invocation_id=self._batch.invocation_id,
                kind=FENCE,
                prefix=fence_of(None),
                after=fence_of(self._this.number),
            )
        except DurableAdkError:
            return False  # the workflow performs the step, and waits for the store as for any

    def _attempt_at(self, step: Effect[Any], row: EffectRow[Any]) -> Attempt:
        if not isinstance(row, CodeEffect):
            return self._this
        return _StepAttempt(
            what=row.what(step),
            deps=self._this.deps,
            noted_in=step if isinstance(step, Step) and row.notes_attempts(step) else None,
            number=self._this.number,
            history=self._this.history,
            is_local=self._this.is_local,
            on_begin=self._begin,
        )

    def _begin(self) -> None:
        self._begun = True

    def _is_retried(self, row: EffectRow[Any], error: DurableAdkError) -> bool:
        limits = self._batch.checkpoint.opened.limits
        attempts = row.attempts(limits) if isinstance(row, CodeEffect) else None
        return self._this.retries(error, attempts)

    def _record(self, outcome: StepOutcome) -> None:
        size = len(outcome.to_json().encode())
        if outcome.result is not None and self._bytes + size > MOST:
            outcome = StepOutcome(name=outcome.name, at=outcome.at, repeated=True)
            size = 0
        self._bytes += size
        self.outcomes.append(outcome)

    @property
    def _is_ending(self) -> bool:
        return self._ending or self.failure is not None

    async def _end(self) -> asyncio.CancelledError:
        """Begin no further step, and wait until the batch has ended; return what ends the loop."""
        self._ending = True
        self._end_if_idle()
        # An event, because work that must not be interrupted may wait here as well.
        await self._abandoned.wait()
        return asyncio.CancelledError()

    def _end_if_idle(self) -> None:
        if self._is_ending and not self._running and not self.ended.done():
            self.ended.set_result(None)

    async def abandon(self, loop: "asyncio.Task[Any]") -> None:
        """Cancel the loop and the steps that still run; one that finishes all the same counts."""
        self._ending = True
        self._abandoned.set()
        loop.cancel()
        await asyncio.wait({loop})
        error = None if loop.cancelled() else loop.exception()
        if error is not None and not isinstance(error, DurableAdkError):
            logger.error("batch.loop_failed", error_type=type(error).__name__, exc_info=error)


def _completed(outcome: StepOutcome, done: object) -> StepOutcome:
    """Set the result; a copy of one whose event the loop has yet to commit, and may change."""
    if isinstance(done, StepResult):
        outcome.result = done if done.seq is not None else done.model_copy(deep=True)
    elif isinstance(done, int):
        outcome.seq = done
    return outcome


async def run_step_batch(
    batch: StepBatch,
    attempt: Attempt,
    performer: Performer,
    row_of: Callable[[Any], EffectRow[Any]],
) -> StepBatchResult:
    """Run the loop from the batch's checkpoint until the batch ends.

    Args:
        batch: The batch.
        attempt: The activity's attempt.
        performer: Performs the steps.
        row_of: Returns a step's row of the table of effects.

    Raises:
        DurableAdkError: A step is to be retried.
        RetryLater: A tool requests a retry.
        CancelledError: The worker shuts down during a step, which is retried elsewhere.
    """
    if not isinstance(attempt, ActivityAttempt):
        raise TypeError("A batch runs in an activity.")
    runtime = BatchRuntime(batch, attempt, performer, row_of)
    await raise_fence(attempt.deps, batch.key, batch.invocation_id)
    invocation = _invocation(runtime, batch)
    runtime.branches = invocation.state.branches
    loop = asyncio.ensure_future(drive(invocation))
    try:
        await asyncio.wait({loop, runtime.ended}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        if attempt.is_leaving:
            raise  # the next attempt finds what has finished
        # The workflow has requested it, and continues with what has finished.
    finally:
        await uninterrupted(runtime.abandon(loop))
    if runtime.failure is not None:
        raise runtime.failure
    return StepBatchResult(began=runtime.began, outcomes=runtime.outcomes)


def _invocation(runtime: BatchRuntime, batch: StepBatch) -> Invocation:
    runtime.inbox.restore(batch.checkpoint.pending)
    return Invocation(
        LoopState(
            runtime=runtime,
            checkpoint=batch.checkpoint,
            key=batch.key,
            lease_owner=batch.lease_owner,
            # Only custom agents see the message and the state.
            message=types.Content(role="user"),
            state=None,
            past={},
        )
    )
