"""The table of effects: each effect is one row here and one function of this package.

`InvocationActivities` creates an activity for each row, `TemporalRuntime` schedules it as the row
specifies, and `LocalRuntime` performs it in process. `Runtime.perform` finds the row by the step's
type. Everything particular to an effect is in its row; these three hold what is common to all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from durable_adk.activities import lifecycle
from durable_adk.activities.attempt import history_after
from durable_adk.activities.commit.commit import commit_event
from durable_adk.activities.commit.staleness import require_known
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effect_rows import EffectRow, StepEffect, StoreEffect, TaskEffect
from durable_adk.activities.invocation import checkpoint, queue, take_over
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.compact import compact
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import pause_invocation, take_answer
from durable_adk.activities.invocation.session_events import read_session_events
from durable_adk.activities.model.call import call_model
from durable_adk.activities.model.rebuild import read_model_requests
from durable_adk.activities.node.batch import run_items
from durable_adk.activities.node.run import run_node
from durable_adk.activities.step_batch import run_step_batch
from durable_adk.activities.tool import delegated
from durable_adk.activities.tool.call import call_tool
from durable_adk.activities.tool.run import RetryLater
from durable_adk.activities.user_code.callbacks import run_callback
from durable_adk.activities.user_code.code import execute_code
from durable_adk.activities.user_code.function import run_function
from durable_adk.activities.user_code.plugin_hooks import KEPT, run_hook
from durable_adk.activities.webhook.announcement import announce
from durable_adk.activities.webhook.delivery import deliver_webhook
from durable_adk.calling.code_scope import CodeScope
from durable_adk.errors import RunError, SessionBusyError
from durable_adk.sessions.records import Status
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import (
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
    StepBatch,
    StepBatchResult,
)
from durable_adk.wire.effect import Attempt, Effect
from durable_adk.wire.event_page import EventPage, ReadSessionEventsStep
from durable_adk.wire.graph.batch import ItemsResult, ItemsStep
from durable_adk.wire.messages import MAX_BYTES, WhenBusy
from durable_adk.wire.model_request import ModelRequests, ReadModelRequestsStep
from durable_adk.wire.steps import (
    UNKNOWN_EPOCH,
    AnswerStep,
    AnswerTaken,
    CallbackStep,
    CancellationStep,
    CloseStep,
    CodeStep,
    CommitStep,
    CompactStep,
    Ending,
    FunctionStep,
    HookStep,
    ModelStep,
    NodeStep,
    Opened,
    OpenStep,
    PauseStep,
    StepResult,
    ToolStep,
)
from durable_adk.wire.webhook import Delivered, DeliverStep

R = TypeVar("R")
W = TypeVar("W", PauseStep, AnswerStep, CloseStep)


async def _open(deps: Dependencies, step: OpenStep) -> Opened:
    try:
        opened = await open_invocation(deps, step)
    except SessionBusyError:
        lifecycle.opening_waits(step)
        raise
    lifecycle.opened(step, opened)
    return opened


def _guarded(
    effect: Callable[[Dependencies, W], Awaitable[R]],
) -> Callable[[Dependencies, W], Awaitable[R]]:
    """Let an effect write to an opened invocation only if the store knows all of it (I21)."""

    @wraps(effect)
    async def guarded(deps: Dependencies, step: W) -> R:
        if step.epoch != UNKNOWN_EPOCH:  # else it may never have been opened
            await require_known(
                deps, step.key, step.invocation_id, epoch=step.epoch, revision=step.revision
            )
        return await effect(deps, step)

    return guarded


@_guarded
async def _pause(deps: Dependencies, step: PauseStep) -> bool | None:
    paused = await pause_invocation(deps, step)
    if paused is not False:
        lifecycle.paused(step.key)
        await announce(deps, step.key, step.invocation_id, Status.PAUSED, revision=step.revision)
    return paused


async def _note_cancellation(deps: Dependencies, step: CancellationStep) -> bool:
    return await deps.sessions.note_cancellation(step.key)


@_guarded
async def _take(deps: Dependencies, step: AnswerStep) -> AnswerTaken:
    return await take_over.retry_when_freed(deps, step, take_answer)


@_guarded
async def _close(deps: Dependencies, step: CloseStep) -> Ending:
    ended = await take_over.retry_when_freed(deps, step, close_invocation)
    await lifecycle.closed(deps, step, ended)
    if ended.record.epoch != UNKNOWN_EPOCH:  # else it was never opened
        await announce(deps, step.key, step.invocation_id, ended.record.status)
    return ended


def _is_large(step: HookStep) -> bool:
    """Return whether the event, e.g. merged results of parallel calls, is larger than any step."""
    return step.event is not None and len(step.event.to_json().encode()) > MAX_BYTES


EFFECTS: tuple[EffectRow[Any], ...] = (
    StoreEffect(
        "open_invocation",
        OpenStep,
        Opened,
        _open,
        summary=lambda step: step.key.app_name,
        needs_lease=True,
        waits=lambda step: step.when_busy is not WhenBusy.REJECT,
        # A user's message fails at once. For an agent used as a tool, the caller's worker has the
        # app.
        waits_for_app=lambda step: step.tool_run is not None,
    ),
    StepEffect(
        "call_model",
        ModelStep,
        StepResult,
        function=call_model,
        what=lambda step: f"A model call of {step.agent}",
        summary=lambda step: f"{step.agent}: {step.model}" if step.model else step.agent,
        task_queue=lambda step, by_model: by_model.get(step.model or ""),
        attempts=lambda limits: limits.model_attempts,
    ),
    StepEffect(
        "call_tool",
        ToolStep,
        StepResult,
        function=call_tool,
        what=lambda step: f"Tool {step.tool!r}",
        summary=lambda step: step.tool,
        task_queue=lambda step, _: step.spec.task_queue if step.spec else None,
        heartbeat_timeout=lambda step: step.spec.heartbeat_timeout if step.spec else None,
    ),
    StepEffect(
        "run_node",
        NodeStep,
        StepResult,
        function=lambda active: run_node(active, EffectPerformer),
        what=lambda step: f"Node {step.node!r}",
        summary=lambda step: step.named.path,
        task_queue=lambda step, _: step.task_queue,
        span=lambda step: f"invoke_node {step.node}",
    ),
    StepEffect(
        "execute_code",
        CodeStep,
        StepResult,
        function=execute_code,
        what=lambda step: f"The code of {step.agent}",
        summary=lambda step: step.agent,
        span=lambda _: "execute_code",
    ),
    StepEffect(
        "run_callback",
        CallbackStep,
        StepResult,
        function=run_callback,
        what=lambda step: f"{step.hook}_callback of {step.agent}",
        summary=lambda step: f"{step.agent} {step.hook}",
        span=lambda step: f"run_callback {step.hook}",
    ),
    StepEffect(
        "run_function",
        FunctionStep,
        StepResult,
        function=run_function,
        what=lambda step: f"{step.function} of {step.agent}",
        summary=lambda step: f"{step.agent} {step.function}",
        span=lambda step: f"run_function {step.function}",
        commits=False,
    ),
    StepEffect(
        "run_hook",
        HookStep,
        StepResult,
        function=run_hook,
        what=lambda step: f"{step.hook} of the plugins",
        summary=lambda step: step.hook,
        # Before a message is stored there is no invocation; an answer's step has its epoch.
        notes_attempts=lambda step: step.epoch is not None,
        is_large=_is_large,
        commits=False,
        keeps=lambda step: step.hook in KEPT,
    ),
    TaskEffect(
        "run_steps",
        StepBatch,
        StepBatchResult,
        function=lambda deps, batch, attempt: run_step_batch(
            batch, attempt, EffectPerformer(deps), row_of
        ),
        what=lambda batch: f"Steps of {batch.agent}",
        summary=lambda batch: batch.agent,
        notes_attempts=lambda _: False,  # each step does
        counts_lost=False,
    ),
    TaskEffect(
        "run_items",
        ItemsStep,
        ItemsResult,
        function=lambda deps, batch, attempt: run_items(
            batch, attempt, EffectPerformer(deps), row_of
        ),
        what=lambda batch: f"Items of {batch.step.node!r}",
        summary=lambda batch: batch.summary,
        task_queue=lambda batch, _: batch.step.task_queue,
        notes_attempts=lambda _: False,  # each step does
        counts_lost=False,
    ),
    StoreEffect(
        "commit_event", CommitStep, int, commit_event, summary=lambda step: step.event.author
    ),
    StoreEffect(
        "pause_invocation", PauseStep, bool, _pause, summary=lambda step: f"epoch {step.epoch}"
    ),
    StoreEffect(
        "note_cancellation",
        CancellationStep,
        bool,
        _note_cancellation,
        summary=lambda step: step.key.app_name,
    ),
    StoreEffect(
        "take_answer",
        AnswerStep,
        AnswerTaken,
        _take,
        summary=lambda step: step.call_name or "lease only",
        needs_lease=True,
    ),
    StoreEffect(
        "close_invocation",
        CloseStep,
        Ending,
        _close,
        summary=lambda step: step.status.value,
        needs_lease=True,  # closing a paused invocation waits for the session
    ),
    TaskEffect(
        "compact",
        CompactStep,
        type(None),
        function=lambda deps, step, _: compact(deps, step),
        what=lambda step: f"The summary after {step.invocation_id}",
        summary=lambda step: step.invocation_id,
        notes_attempts=lambda _: False,  # the invocation has ended
    ),
    StoreEffect(
        "save_checkpoint",
        SaveCheckpointStep,
        str,
        checkpoint.save_checkpoint,
        summary=lambda step: f"checkpoint {step.number}",
    ),
    StoreEffect(
        "save_journal",
        SaveJournalStep,
        str,
        checkpoint.save_journal,
        summary=lambda step: step.body,
    ),
    StoreEffect(
        "read_checkpoint",
        ReadCheckpointStep,
        LoadedCheckpoint,
        checkpoint.read_checkpoint,
        summary=lambda step: f"checkpoint {step.cursor.checkpoint}",
    ),
    StoreEffect(
        "read_journals",
        ReadJournalStep,
        JournalPage,
        checkpoint.read_journals,
        summary=lambda step: ", ".join(step.parts),
    ),
    StoreEffect(
        "read_session_events",
        ReadSessionEventsStep,
        EventPage,
        read_session_events,
        summary=lambda step: f"after {step.after}",
    ),
    TaskEffect(
        "read_model_requests",
        ReadModelRequestsStep,
        ModelRequests,
        function=read_model_requests,
        what=lambda step: f"The model requests of session {step.session}",
        summary=lambda step: f"model calls: {len(step.event_ids)}",
        notes_attempts=lambda _: False,  # not part of an invocation
    ),
    StoreEffect(
        "deliver_webhook",
        DeliverStep,
        Delivered,
        deliver_webhook,
        summary=lambda step: f"{step.status} to {step.endpoint}",
    ),
)

_ROWS: dict[type[Any], EffectRow[Any]] = {row.step: row for row in EFFECTS}


def row_of(step: Effect[R]) -> EffectRow[R]:
    """Return the table row of a step."""
    return _ROWS[type(step)]


class EffectPerformer:
    """Performs effects in this process: one attempt per call if the caller counts attempts.

    Args:
        deps: The apps and stores.
        lost: Number of attempts of all steps that were lost before: steps then look for what these
            have stored.
    """

    def __init__(self, deps: Dependencies, *, lost: int = 0) -> None:
        self.deps = deps
        self._lost = lost

    def row_of(self, step: Effect[R]) -> EffectRow[R]:
        """See `row_of`."""
        return row_of(step)

    async def perform(self, step: Effect[R], attempt: Attempt | None = None) -> R:
        """Perform one attempt. Without `attempt`, tools that request a retry are retried here."""
        row, this = row_of(step), attempt or Attempt()
        if self._lost:
            this = replace(this, number=this.number + self._lost)
        while True:
            try:
                with CodeScope(RunError, outermost=True):
                    return await row.perform(self.deps, step, this)
            except RetryLater as again:
                if attempt is not None:
                    raise
                number, history = this.number, history_after(this.history, this.number, again)
                delay = again.delay
            await asyncio.sleep(delay)
            this = Attempt(number=number + 1, history=history)

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """See `delegated.run_activity`; on Temporal, an external worker runs the activity."""
        return await delegated.run_activity(self.deps, step, call)

    async def wait_for_turn(self, step: queue.WaitingStep, busy: SessionBusyError) -> None:
        """See `queue.wait_locally`."""
        await queue.wait_locally(self.deps, step, busy)
