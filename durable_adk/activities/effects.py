"""The table of effects: each effect is one row here and one function of this package.

`InvocationActivities` creates an activity for each row, `TemporalRuntime` schedules it as the row
specifies, and `LocalRuntime` performs it in process. `Runtime.perform` finds the row by the step's
type. Everything particular to an effect is in its row; these three hold what is common to all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, TypeVar

from durable_adk.activities import lifecycle
from durable_adk.activities.attempt import history_after
from durable_adk.activities.commit.commit import commit_event
from durable_adk.activities.commit.early_commit import run_and_commit, run_and_keep
from durable_adk.activities.commit.staleness import require_known
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation import checkpoint, queue, take_over
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.compact import compact
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import pause_invocation, take_answer
from durable_adk.activities.invocation.session_events import read_session_events
from durable_adk.activities.model.call import call_model
from durable_adk.activities.model.rebuild import read_model_requests
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.tool import delegated
from durable_adk.activities.tool.call import call_tool
from durable_adk.activities.tool.run import RetryLater
from durable_adk.activities.user_code.callbacks import run_callback
from durable_adk.activities.user_code.code import execute_code
from durable_adk.activities.user_code.function import run_function
from durable_adk.activities.user_code.plugin_hooks import KEPT, run_hook
from durable_adk.activities.webhook.announcement import announce
from durable_adk.activities.webhook.delivery import deliver_webhook
from durable_adk.calling.closing import uninterrupted
from durable_adk.calling.code_scope import CodeScope
from durable_adk.errors import RunError, SessionBusyError
from durable_adk.retrying import STORE_TIMEOUT
from durable_adk.sessions.records import Status
from durable_adk.settings import Limits
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import (
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
)
from durable_adk.wire.effect import Attempt, Effect
from durable_adk.wire.event_page import EventPage, ReadSessionEventsStep
from durable_adk.wire.messages import MAX_BYTES, WhenBusy
from durable_adk.wire.model_request import ModelRequests, ReadModelRequestsStep
from durable_adk.wire.steps import (
    UNKNOWN_EPOCH,
    AnswerStep,
    AnswerTaken,
    CallbackStep,
    CloseStep,
    CodeStep,
    CommitStep,
    CompactStep,
    EarlyCommit,
    Ending,
    FunctionStep,
    HookStep,
    ModelStep,
    Opened,
    OpenStep,
    PauseStep,
    Step,
    StepResult,
    ToolStep,
)
from durable_adk.wire.webhook import Delivered, DeliverStep

S = TypeVar("S")
R = TypeVar("R")
C = TypeVar("C", bound=Step | CompactStep | ReadModelRequestsStep)
A = TypeVar("A", bound=Step)
W = TypeVar("W", PauseStep, AnswerStep, CloseStep)


@dataclass(frozen=True)
class _Row(Generic[S, R]):
    name: str
    """Name of the activity. It is recorded in histories, so it never changes."""
    step: type[S]
    result: type[R]
    summary: Callable[[S], str] = field(kw_only=True)
    """Describes the step in Temporal's UI, without content of the conversation."""


@dataclass(frozen=True)
class StoreEffect(_Row[S, R]):
    """An effect that only reads or writes the store.

    It runs first as a local activity, so that a large input such as an event is not written to the
    history again (D4), and then as a normal one, which retries until the store is available and the
    session free.
    """

    function: Callable[[Dependencies, S], Awaitable[R]]
    needs_lease: bool = False
    """Whether the effect raises SessionBusyError while another invocation is active."""
    waits: Callable[[S], bool] = lambda _: True
    """Whether the effect is retried while another invocation is active."""
    waits_for_app: Callable[[S], bool] = lambda _: False
    """Whether the effect is retried on a worker that does not serve the app (yet)."""
    timeout: float = STORE_TIMEOUT
    """Seconds of one attempt as a normal activity."""

    async def perform(self, deps: Dependencies, step: S, attempt: Attempt) -> R:
        """Perform one attempt."""
        del attempt  # all attempts are alike: writes are idempotent by id
        return await self.function(deps, step)


@dataclass(frozen=True)
class CodeEffect(_Row[C, R]):
    """An effect that runs user code or calls a model, as a normal activity."""

    what: Callable[[C], str] = field(kw_only=True)
    """The step's description in errors."""
    task_queue: Callable[[C, Mapping[str, str]], str | None] = lambda _step, _by_model: None
    """The task queue of a step, given those of models; None: the workflow's."""
    attempts: Callable[[Limits], int | None] = lambda _: None
    """Maximum attempts at an unavailable service; None: unlimited."""
    notes_attempts: Callable[[C], bool] = lambda _: True
    """Whether the invocation can store notes on lost attempts; otherwise all of these count."""
    is_large: Callable[[C], bool] = lambda _: False
    """Whether the step is too large for the input of a normal activity.

    A local activity's input is not sent to the server, but the workflow receives no signals while
    it runs.
    """

    def timeout(self, step: C, limits: Limits) -> float:
        """Return the seconds of an attempt; the code's own time limit ends earlier."""
        early_commit = step.early_commit if isinstance(step, Step) else None
        hooked = early_commit is not None and early_commit.on_event  # after the work
        return step.attempt_timeout + limits.callback_timeout * (2 if hooked else 1)

    async def perform(self, deps: Dependencies, step: C, attempt: Attempt) -> R:
        """Perform one attempt."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class TaskEffect(CodeEffect[C, R]):
    """A code effect that is no step of an agent."""

    function: Callable[[Dependencies, C, Attempt], Awaitable[R]]

    async def perform(self, deps: Dependencies, step: C, attempt: Attempt) -> R:
        """Perform one attempt."""
        return await self.function(deps, step, attempt)


@dataclass(frozen=True, kw_only=True)
class StepEffect(CodeEffect[A, StepResult]):
    """A code effect that is a step of an agent, with its telemetry."""

    function: Callable[[ActiveStep[A]], Awaitable[StepResult]]
    span: Callable[[A], str | None] = lambda _: None
    """Name of a span over the step; None: the function creates its own spans."""
    commits: bool = True
    """Whether the step commits its event itself if the loop allows it."""
    keeps: Callable[[A], bool] = lambda _: True
    """Whether the result of a step that does not commit is noted for the loop."""

    async def perform(self, deps: Dependencies, step: A, attempt: Attempt) -> StepResult:
        """Perform one attempt."""
        number, summary = attempt.number, self.summary(step)
        with lifecycle.told(
            self.name, step, attempt=number, shown=self.span(step), summary=summary
        ):
            active = ActiveStep(deps=deps, step=step, attempt=attempt)
            if not self.commits:
                keeps = self.keeps(step)
                return await (
                    run_and_keep(active, self.function) if keeps else self.function(active)
                )
            result, closed = await run_and_commit(active, self.function)
            if closed and step.early_commit is not None:
                # Must not be interrupted: the result must tell the loop what is stored.
                again = closed == "before"
                await uninterrupted(_closed_by_step(deps, step, step.early_commit, again=again))
            return result


async def _closed_by_step(
    deps: Dependencies, step: Step, early_commit: EarlyCommit, *, again: bool
) -> None:
    await lifecycle.closed_by_step(deps, step, early_commit, again=again)
    await announce(deps, step.key, step.invocation_id, Status.COMPLETED)


EffectRow = StoreEffect[Any, R] | CodeEffect[Any, R]


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
    StoreEffect(
        "commit_event", CommitStep, int, commit_event, summary=lambda step: step.event.author
    ),
    StoreEffect(
        "pause_invocation", PauseStep, bool, _pause, summary=lambda step: f"epoch {step.epoch}"
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
        type(None),
        checkpoint.save_journal,
        summary=lambda step: f"checkpoint {step.number}, part {step.index}",
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
        summary=lambda step: f"checkpoint {step.upto}",
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
    """Performs effects in this process: one attempt per call if the caller counts attempts."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps

    async def perform(self, step: Effect[R], attempt: Attempt | None = None) -> R:
        """Perform one attempt. Without `attempt`, tools that request a retry are retried here."""
        row, this = row_of(step), attempt or Attempt()
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
