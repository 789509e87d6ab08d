"""The loop's port to the world, on Temporal: every effect is an activity."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    is_cancelled_exception,
)

from durable_adk.activities.effects import CodeEffect, StoreEffect, row_of
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.registry import serving
from durable_adk.errors import DurableAdkError, RunError, from_detail, raised, rebuild
from durable_adk.runtime import Inbox
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import Checkpoint, JournalPage, LoadedCheckpoint, unpacked
from durable_adk.wire.effect import Effect
from durable_adk.wire.messages import MAX_BYTES, InvocationRequest, InvocationResult, workflow_id
from durable_adk.wire.steps import (
    AnswerTaken,
    CompactStep,
    HookStep,
    ModelStep,
    Opened,
    OpenStep,
    PauseStep,
    Step,
    ToolStep,
)
from durable_adk.workflows import external_activity
from durable_adk.workflows.status import StatusDisplay, for_child

R = TypeVar("R")
STORE_TIMEOUT = timedelta(seconds=30)
"""One attempt of a store activity that is no longer local."""
UNSEEN = 100
"""Local activities, one after the other, after which a timer has the history looked at."""
CHILD_TASK_TIMEOUT = timedelta(seconds=3)
MARGIN = timedelta(seconds=30)
"""Steps end themselves at their timeout; the engine steps in only this much later."""
RETRY = RetryPolicy(
    # Only a lost worker is retried by this; a model that is unavailable says itself when.
    initial_interval=timedelta(milliseconds=100),
    backoff_coefficient=2.0,
    # So that what has lost many workers goes on soon after the last of them (I11).
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=external_activity.TOO_LARGE,
)
STORE_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2)
)


class TemporalRuntime:
    """Implements `runtime.Runtime` inside a workflow. Replay-safe: it only schedules and waits."""

    rolls = True

    def __init__(self, inbox: Inbox, board: StatusDisplay) -> None:
        self.inbox = inbox
        self._board = board
        self._limits = Limits()
        self._registry = ""
        self._model_queues: dict[str, str] = {}
        self._unseen = 0
        """Local activities since the history was last looked at."""
        self.look()

    def now(self) -> float:
        """Workflow time, seconds since the epoch: recorded, so the same at every replay."""
        return workflow.time()

    def new_id(self) -> str:
        """A uuid seeded by the run's id: the same at every replay."""
        return str(workflow.uuid4())

    def cancelled(self) -> bool:
        """Whether the workflow was asked to cancel; recorded, so the same at every replay."""
        return workflow.cancellation_reason() is not None

    def look(self) -> None:
        """Note how much history there is; only where a workflow task begins.

        What a local activity is followed by may be in the task that began before it, or, if that
        had to be completed meanwhile, in the next: a replay always has it in the first. So the
        length of the history *there* is not the same at every replay, and neither would be what is
        decided by it. At the news that a task brings it is: a signal, a timer, an activity's end.
        """
        info = workflow.info()
        self._suggested = info.is_continue_as_new_suggested()
        self._events = info.get_current_history_length()
        self._bytes = info.get_current_history_size()
        self._unseen = 0

    def fullness(self) -> float:
        """By the history that the server has told with a task: the same at every replay."""
        limits = self._limits
        return max(
            float(self._suggested),
            self._events / limits.max_history_events,
            self._bytes / limits.max_history_bytes,
        )

    async def leave(self, agents: asyncio.Task[None]) -> None:
        """Nothing: they end when the worker drops the run; what they do then reaches nobody."""
        del agents

    def agent(self, app: str, name: str) -> BaseAgent:
        """The agent whose own code the loop is to run."""
        return serving(self._registry).agent(app, name)

    async def perform(self, step: Effect[R]) -> R:
        """An activity; a local one first if it is the store's."""
        row = row_of(step)
        if isinstance(row, CodeEffect):
            return await self._activity(row, step)
        done = await self._store(row, _with_parent(step))
        await self._after(step, done)
        return done

    async def _after(self, step: object, done: object) -> None:
        """Take from a result what this runtime goes by, and record it where that is needed."""
        if isinstance(step, PauseStep):
            self._board.waits()
        match done:
            case Opened():
                if done.state is not None:
                    await self._recorded()
                self._is_open_as(done)
            case AnswerTaken():
                if done.refused is None:
                    self._board.goes_on()
                if done.state is not None or done.heard is not None:
                    await self._recorded()  # several messages too: a task reports 4 MB (1c)
            case LoadedCheckpoint(ending=None):
                self._is_open_as(Checkpoint.from_json(unpacked(done.place)).opened)
            case JournalPage() if done.next is not None:
                await self._recorded()  # what one task reports has 4 MB (1c)
            case _:
                pass

    def _is_open_as(self, opened: Opened) -> None:
        self._limits, self._registry = opened.limits, opened.registry
        self._model_queues = opened.model_task_queues or {}

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """A child workflow: its steps are its own history, and are resumed on their own."""
        key = SessionKey(request.app, request.user, request.session or "")
        try:
            result = await workflow.execute_child_workflow(
                workflow.info().workflow_type,
                request,
                id=workflow_id(key, request.invocation_id or ""),
                result_type=InvocationResult,
                task_timeout=CHILD_TASK_TIMEOUT,
                # It seals its session before this one goes on, and when this one is terminated.
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                static_summary=request.tool_run.agent if request.tool_run else None,
                search_attributes=for_child(request),
            )
        except FailureError as error:
            raise _reason(error) from error
        self.look()
        return result

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """The activity of others itself, in this history."""
        with self._board.step(f"{step.agent}: {step.tool}"):
            result = await external_activity.run(call, summary=f"{step.agent}: {step.tool}")
        self.look()
        return result

    async def _activity(self, row: CodeEffect[Any, R], step: Any) -> R:
        summary = row.summary(step)
        try:
            if isinstance(step, HookStep) and _is_large(step):
                return await workflow.execute_local_activity(
                    row.name,
                    step,
                    result_type=row.result,
                    start_to_close_timeout=self._limit(step),
                    retry_policy=RETRY,
                )
            with self._board.step(summary):
                done = await workflow.execute_activity(
                    row.name,
                    step,
                    result_type=row.result,
                    task_queue=self._queue(step),
                    start_to_close_timeout=self._limit(step),
                    heartbeat_timeout=timedelta(seconds=self._limits.heartbeat_timeout),
                    retry_policy=RETRY,
                    # An async tool may clean up, before the session goes to the next message.
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=summary,
                )
        except FailureError as error:
            raise _reason(error) from error
        self.look()
        return done

    def _queue(self, step: Step | CompactStep) -> str | None:
        """The task queue of a tool, or of the model's name; None: the workflow's."""
        if isinstance(step, ModelStep):
            return self._model_queues.get(step.model or "")
        return step.spec.task_queue if isinstance(step, ToolStep) and step.spec else None

    def _limit(self, step: Step | CompactStep) -> timedelta:
        """How long an attempt may take before the engine gives it up; it ends itself earlier."""
        grant = step.grant if isinstance(step, Step) else None
        hooked = grant is not None and grant.on_event  # after the work
        callbacks = self._limits.callback_timeout * (2 if hooked else 1)
        return timedelta(seconds=step.attempt_timeout + callbacks) + MARGIN

    async def _recorded(self) -> None:
        """Have a local activity's result in the history before a custom agent's body sees it.

        A timer ends the workflow task. Otherwise what had to be repeated later, after a crash,
        would show the body its own changes.
        """
        with suppress(asyncio.CancelledError):  # what was done has to be known, to be sealed
            await workflow.sleep(timedelta(milliseconds=1))
            self.look()

    async def _store(self, row: StoreEffect[Any, R], step: Any) -> R:
        """As `_stored`; now and then the history is looked at afterwards."""
        done = await self._stored(row, step)
        self._unseen += 1
        if self._unseen >= UNSEEN:
            await self._recorded()
        return done

    async def _stored(self, row: StoreEffect[Any, R], step: Any) -> R:
        """Write to the store without making the workflow deaf for longer than a second (D4).

        A local activity costs no extra workflow task, but signals and cancellations wait for it.
        So it has one attempt and little time; then a normal activity goes on with the same ids,
        which is safe because the store looks at the id first. Whether the local attempt timed out
        is in the history (its marker), so replay takes the same branch.

        A cancellation waits for the local attempt, which may have written already: what it wrote is
        returned, and only if it failed is the cancellation raised.
        """
        local = workflow.start_local_activity(
            row.name,
            step,
            result_type=row.result,
            schedule_to_close_timeout=timedelta(seconds=self._limits.local_commit_timeout),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        try:
            return await asyncio.shield(local)
        except asyncio.CancelledError:
            with suppress(FailureError):
                return await local
            raise
        except FailureError as error:
            if is_cancelled_exception(error) or _is_final(error):
                raise _reason(error) from error
        try:
            done = await workflow.execute_activity(
                row.name,
                step,
                result_type=row.result,
                start_to_close_timeout=STORE_TIMEOUT,
                heartbeat_timeout=timedelta(seconds=self._limits.heartbeat_timeout),
                retry_policy=STORE_RETRY,
                # It may be writing: what it has done must be known, as for steps.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except FailureError as error:
            raise _reason(error) from error
        self.look()
        return done


def _with_parent(step: object) -> object:
    """An agent's run as a tool is opened with who has asked, which only the engine knows."""
    if not isinstance(step, OpenStep) or step.tool_run is None:
        return step
    parent = workflow.info().parent
    return step.model_copy(update={"parent": parent.workflow_id if parent else ""})


def _is_large(step: HookStep) -> bool:
    """Whether an event is too large for the input of a normal activity.

    The merged results of calls side by side can be that. A local activity's input is sent nowhere,
    but the workflow is deaf while it runs.
    """
    return step.event is not None and len(step.event.to_json().encode()) > MAX_BYTES


def _cause(error: FailureError) -> BaseException:
    """What went wrong in an activity; only the failures of normal ones come wrapped."""
    wrapped = isinstance(error, (ActivityError, ChildWorkflowError))
    return (error.cause or error) if wrapped else error


def _is_final(error: FailureError) -> bool:
    cause = _cause(error)
    return isinstance(cause, ApplicationError) and cause.non_retryable


def _reason(error: FailureError) -> DurableAdkError | asyncio.CancelledError:
    """Our own error for what an activity failed with."""
    if is_cancelled_exception(error):
        return asyncio.CancelledError()
    cause = _cause(error)
    if isinstance(cause, ApplicationError):
        detail = next(iter(cause.details), None)
        if isinstance(detail, dict):
            return from_detail(detail)  # pyright: ignore[reportUnknownArgumentType]: as_detail made it
        # It has had details; they could not be read.
        return rebuild(cause.type or "ApplicationError", cause.message)
    return raised(RunError, type(cause).__name__, str(error))
