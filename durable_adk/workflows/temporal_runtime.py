"""The loop's port on Temporal: every effect is an activity."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    is_cancelled_exception,
)

from durable_adk.activities.effect_rows import CodeEffect, StoreEffect
from durable_adk.activities.effects import row_of
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.registry import serving
from durable_adk.errors import DurableAdkError, RunError, from_detail, raised, rebuild
from durable_adk.flows.runtime import Inbox, StepBatches
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import Checkpoint, JournalPage, LoadedCheckpoint, unpacked
from durable_adk.wire.effect import Effect
from durable_adk.wire.messages import InvocationRequest, InvocationResult, workflow_id
from durable_adk.wire.steps import (
    AnswerTaken,
    CancellationStep,
    Opened,
    OpenStep,
    PauseStep,
    Step,
    ToolStep,
)
from durable_adk.workflows import external_activity
from durable_adk.workflows.status import StatusDisplay, for_child
from durable_adk.workflows.step_batch import BatchOutcomes, taken

R = TypeVar("R")
UNSEEN = 100
"""Number of consecutive local activities after which a timer starts a new task, in order to measure
the history."""
CHILD_TASK_TIMEOUT = timedelta(seconds=3)
MARGIN = timedelta(seconds=30)
"""Steps end themselves at their timeout; Temporal's timeout is this much later."""
RETRY = RetryPolicy(
    # Only for lost workers; an unavailable model sets its own delay.
    initial_interval=timedelta(milliseconds=100),
    backoff_coefficient=2.0,
    # So a step that lost many workers continues soon after the last one (I11).
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=external_activity.TOO_LARGE,
)
STORE_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2)
)


class TemporalRuntime:
    """Implements `Runtime` inside a workflow. Replay-safe: it only schedules and waits."""

    rolls = ends_in_time = True

    def __init__(self, inbox: Inbox, status: StatusDisplay) -> None:
        self.inbox = inbox
        self._status = status
        self._limits = Limits()
        self._registry = ""
        self._model_queues: dict[str, str] = {}
        self._outcomes = BatchOutcomes(self.perform)
        self.batches: StepBatches | None = self._outcomes
        self._unseen = 0
        """Local activities since the history was last measured."""
        self.look()

    def now(self) -> float:
        """Return workflow time, seconds since the epoch: recorded, so the same at every replay.

        While the loop follows a batch, it is the time at which the batch was there, so that both
        decide alike, for example about a budget's time limit.
        """
        follows = self._outcomes.is_ahead and not self.cancelled()
        return self._outcomes.now if follows else workflow.time()

    def new_id(self) -> str:
        """Return a uuid seeded by the run's id: the same at every replay."""
        return str(workflow.uuid4())

    def cancelled(self) -> bool:
        """Return whether a cancellation was requested: recorded, so the same at every replay."""
        return workflow.cancellation_reason() is not None

    def look(self) -> None:
        """Measure the history. Allowed only at an event that begins a workflow task.

        Code after a local activity may run in the task that began before it or, if that task had to
        be completed meanwhile, in the next one; a replay always runs it in the first. So the
        history's length *there* differs between replays, and so would every decision based on it.
        At an event that a task brings (a signal, a timer, the end of an activity) it is the same.
        """
        info = workflow.info()
        self._suggested = info.is_continue_as_new_suggested()
        self._events = info.get_current_history_length()
        self._bytes = info.get_current_history_size()
        self._unseen = 0

    def fullness(self) -> float:
        """Compute it from the history's size at the last `look`: the same at every replay."""
        if self._outcomes.is_ahead:
            return 0.0  # the next run would have to find these steps in the store
        limits = self._limits
        return max(
            float(self._suggested),
            self._events / limits.max_history_events,
            self._bytes / limits.max_history_bytes,
        )

    async def leave(self, agents: asyncio.Task[None]) -> None:
        """Do nothing: the worker evicts the workflow run, so later actions have no effect."""
        del agents

    def agent(self, app: str, name: str) -> BaseAgent:
        """Return the agent whose own code the loop is to run."""
        return serving(self._registry).agent(app, name)

    async def perform(self, step: Effect[R]) -> R:
        """Run an activity; for an effect on the store, a local one first."""
        outcome = self._outcomes.take(step)
        if outcome is not None and not outcome.repeated:
            return cast("R", taken(step, outcome))
        if outcome is not None:
            step = cast("Effect[R]", cast("Step", step).model_copy(update={"repeated": True}))
        row = row_of(step)
        if isinstance(row, CodeEffect):
            return await self._activity(row, step)
        done = await self._store(row, _with_parent(step))
        await self._after(step, done)
        return done

    async def _after(self, step: object, done: object) -> None:
        """Apply a result to this runtime's own state, and have it recorded where needed."""
        if isinstance(step, PauseStep):
            self._status.waiting()
        match done:
            case Opened():
                if done.state is not None:
                    await self._recorded()
                self._configure(done)
            case AnswerTaken():
                if done.refused is None:
                    self._status.running()
                if done.state is not None or done.delivered is not None:
                    await self._recorded()  # messages add up: one task reports at most 4 MB (1c)
            case LoadedCheckpoint(ending=None):
                self._configure(Checkpoint.from_json(unpacked(done.checkpoint)).opened)
            case JournalPage() if done.next:
                await self._recorded()  # pages add up: one task reports at most 4 MB (1c)
            case _:
                pass

    def _configure(self, opened: Opened) -> None:
        self._limits, self._registry = opened.limits, opened.registry
        self._model_queues = opened.model_task_queues or {}

    async def leave_batch(self) -> None:
        """Do nothing: the loop runs in the workflow."""

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """Run a child workflow, which has a history of its own."""
        key = request.key
        try:
            result = await workflow.execute_child_workflow(
                workflow.info().workflow_type,
                request,
                id=workflow_id(key, request.invocation_id or ""),
                result_type=InvocationResult,
                task_timeout=CHILD_TASK_TIMEOUT,
                # The child closes its invocation before this one continues or is terminated.
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                static_summary=request.tool_run.agent if request.tool_run else None,
                search_attributes=for_child(request),
            )
        except FailureError as error:
            raise reason(error) from error
        self.look()
        return result

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """Run the external activity, in this history."""
        with self._status.step(f"{step.agent}: {step.tool}"):
            result = await external_activity.run(call, summary=f"{step.agent}: {step.tool}")
        self.look()
        return result

    async def _activity(self, row: CodeEffect[Any, R], step: Any) -> R:
        summary = row.summary(step)
        try:
            limit = timedelta(seconds=row.timeout(step, self._limits)) + MARGIN
            if row.is_large(step):
                return await workflow.execute_local_activity(
                    row.name,
                    step,
                    result_type=row.result,
                    start_to_close_timeout=limit,
                    retry_policy=RETRY,
                    summary=summary,
                )
            with self._status.step(summary):
                activity = workflow.start_activity(
                    row.name,
                    step,
                    result_type=row.result,
                    task_queue=row.task_queue(step, self._model_queues),
                    start_to_close_timeout=limit,
                    heartbeat_timeout=timedelta(seconds=row.heartbeat(step, self._limits)),
                    retry_policy=RETRY,
                    # An async tool may clean up before the session goes to the next message.
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=summary,
                )
                done = await self._end_of(activity, step.key)
        except FailureError as error:
            raise reason(error) from error
        self.look()
        return done

    async def _end_of(self, activity: workflow.ActivityHandle[R], key: SessionKey) -> R:
        """Wait for an activity's end; notify its attempt of a cancellation through the store.

        Without that, an attempt learns of it from the reply to its next heartbeat.
        """
        try:
            return await asyncio.shield(activity)
        except asyncio.CancelledError:
            activity.cancel()
            notice = asyncio.create_task(self._notify(CancellationStep(key=key)))
            try:
                return await activity
            finally:
                notice.cancel()

    async def _notify(self, step: CancellationStep) -> None:
        # The timer ends the workflow task, so that the server knows of the cancellation first.
        await workflow.sleep(timedelta(milliseconds=1))
        with suppress(FailureError):  # then the heartbeat's reply has it
            await workflow.execute_local_activity(
                row_of(step).name,
                step,
                schedule_to_close_timeout=timedelta(seconds=self._limits.local_commit_timeout),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )

    async def _recorded(self) -> None:
        """Record a local activity's result in the history before a custom agent's body sees it.

        A timer ends the workflow task. Otherwise the activity could be repeated after a crash, and
        its new result would show the body its own changes.
        """
        with suppress(asyncio.CancelledError):  # the caller closes it, and must know the result
            await workflow.sleep(timedelta(milliseconds=1))
            self.look()

    async def _store(self, row: StoreEffect[Any, R], step: Any) -> R:
        """Run `_stored`; now and then measure the history afterwards."""
        done = await self._stored(row, step)
        self._unseen += 1
        if self._unseen >= UNSEEN:
            await self._recorded()
        return done

    async def _stored(self, row: StoreEffect[Any, R], step: Any) -> R:
        """Write to the store; block the workflow for at most `local_commit_timeout` (D4).

        A local activity costs no extra workflow task, but signals and cancellations wait for it. So
        it has a single attempt and little time. Then a normal activity continues with the same ids,
        which is safe because the store checks the id first. The marker in the history records
        whether the local attempt timed out, so a replay takes the same path.

        A cancellation waits for the local attempt, which may have written already. If it has
        succeeded, its result is returned; otherwise the cancellation is raised.
        """
        local = workflow.start_local_activity(
            row.name,
            step,
            result_type=row.result,
            schedule_to_close_timeout=timedelta(seconds=self._limits.local_commit_timeout),
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=row.summary(step),
        )
        try:
            return await asyncio.shield(local)
        except asyncio.CancelledError:
            with suppress(FailureError):
                return await local
            raise
        except FailureError as error:
            if is_cancelled_exception(error) or _is_final(error):
                raise reason(error) from error
        try:
            activity = workflow.start_activity(
                row.name,
                step,
                result_type=row.result,
                start_to_close_timeout=timedelta(seconds=row.timeout),
                heartbeat_timeout=timedelta(seconds=self._limits.heartbeat_timeout),
                retry_policy=STORE_RETRY,
                # It may be writing: its result must be known, as for steps.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=row.summary(step),
            )
            done = await self._end_of(activity, step.key)
        except FailureError as error:
            raise reason(error) from error
        self.look()
        return done


def _with_parent(step: object) -> object:
    """Add the parent workflow to the opening of an agent used as a tool; only Temporal knows it."""
    if not isinstance(step, OpenStep) or step.tool_run is None:
        return step
    parent = workflow.info().parent
    return step.model_copy(update={"parent": parent.workflow_id if parent else ""})


def _cause(error: FailureError) -> BaseException:
    """Return why an activity failed; only failures of normal activities are wrapped."""
    wrapped = isinstance(error, (ActivityError, ChildWorkflowError))
    return (error.cause or error) if wrapped else error


def _is_final(error: FailureError) -> bool:
    cause = _cause(error)
    return isinstance(cause, ApplicationError) and cause.non_retryable


def reason(error: FailureError) -> DurableAdkError | asyncio.CancelledError:
    """Return this package's error for an activity's failure."""
    if is_cancelled_exception(error):
        return asyncio.CancelledError()
    cause = _cause(error)
    if isinstance(cause, ApplicationError):
        detail = next(iter(cause.details), None)
        if isinstance(detail, dict):
            return from_detail(detail)  # pyright: ignore[reportUnknownArgumentType]: as_detail made it
        # Its details could not be decoded.
        return rebuild(cause.type or "ApplicationError", cause.message)
    return raised(RunError, type(cause).__name__, str(error))
