"""The table of effects: each effect is one row here and one function of this package.

`InvocationActivities` creates an activity for each row, `TemporalRuntime` schedules it as the row
specifies, and `LocalRuntime` performs it in process. `Runtime.perform` finds the row by the step's
type.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from durable_adk.activities import lifecycle
from durable_adk.activities.attempt import history_after
from durable_adk.activities.commit.commit import commit_event
from durable_adk.activities.commit.early_commit import run_and_commit
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation import checkpoint, queue, take_over
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.compact import compact
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import pause_invocation, take_answer
from durable_adk.activities.model.call import call_model
from durable_adk.activities.tool import delegated
from durable_adk.activities.tool.call import call_tool
from durable_adk.activities.tool.run import RetryLater
from durable_adk.activities.user_code.agent_callbacks import run_callback
from durable_adk.activities.user_code.code import execute_code
from durable_adk.activities.user_code.function import run_function
from durable_adk.activities.user_code.plugin_hooks import run_hook
from durable_adk.closing import uninterrupted
from durable_adk.errors import SessionBusyError
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import (
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
)
from durable_adk.wire.effect import Effect, EffectAttempt
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.steps import (
    AnswerStep,
    AnswerTaken,
    CallbackStep,
    CloseStep,
    CodeStep,
    CommitStep,
    CompactStep,
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

S = TypeVar("S")
R = TypeVar("R")
A = TypeVar("A", bound=Step)


@dataclass(frozen=True)
class _Row(Generic[S, R]):
    name: str
    """Name of the activity. It is recorded in histories, so it never changes."""
    step: type[S]
    result: type[R]


@dataclass(frozen=True)
class StoreEffect(_Row[S, R]):
    """An effect that only reads or writes the store.

    It runs as a local activity first, so that a large input such as an event is not written to the
    history again (D4), and then as a normal one, whose retries are the wait for the store or for a
    busy session.
    """

    function: Callable[[Dependencies, S], Awaitable[R]]
    waits: Callable[[S], bool] = lambda _: False
    """Whether the effect is retried while another invocation is active in the session."""

    async def perform(self, deps: Dependencies, step: S, attempt: EffectAttempt) -> R:
        """Perform one attempt."""
        del attempt  # writes are idempotent by id, so all attempts are alike
        return await self.function(deps, step)


@dataclass(frozen=True)
class CodeEffect(_Row[S, R]):
    """An effect that runs user code or calls a model, as a normal activity."""

    function: Callable[[Dependencies, S, EffectAttempt], Coroutine[Any, Any, R]]
    what: Callable[[S], str]
    """Describes the step in errors."""
    summary: Callable[[S], str]
    """Describes the step in Temporal's UI."""

    async def perform(self, deps: Dependencies, step: S, attempt: EffectAttempt) -> R:
        """Perform one attempt."""
        return await self.function(deps, step, attempt)


@dataclass(frozen=True)
class StepEffect(CodeEffect[A, StepResult]):
    """A code effect that is a step of an agent, with its telemetry."""

    span: Callable[[A], str | None] = lambda _: None
    """Name of a span over the step; None: the function creates its own spans."""
    commits: bool = True
    """Whether the step commits its event itself if the loop has granted that."""

    async def perform(self, deps: Dependencies, step: A, attempt: EffectAttempt) -> StepResult:
        """Perform one attempt."""
        with lifecycle.told(self.name, step, attempt=attempt.number, shown=self.span(step)):
            work = self.function(deps, step, attempt)
            if not self.commits:
                return await work
            result, closed = await run_and_commit(deps, step, work, attempt)
            if closed and step.grant is not None:
                # Must not be interrupted: the loop has to learn what is stored.
                again = closed == "before"
                await uninterrupted(lifecycle.closed_by_step(deps, step, step.grant, again=again))
            return result


EffectRow = StoreEffect[Any, R] | CodeEffect[Any, R]


async def _open(deps: Dependencies, step: OpenStep) -> Opened:
    try:
        opened = await open_invocation(deps, step)
    except SessionBusyError:
        lifecycle.opening_waits(step)
        raise
    lifecycle.opened(step, opened)
    return opened


async def _pause(deps: Dependencies, step: PauseStep) -> bool | None:
    paused = await pause_invocation(deps, step)
    if paused is not False:
        lifecycle.paused(step.key)
    return paused


async def _take(deps: Dependencies, step: AnswerStep) -> AnswerTaken:
    return await take_over.retry_when_freed(deps, step, take_answer)


async def _close(deps: Dependencies, step: CloseStep) -> Ending:
    ended = await take_over.retry_when_freed(deps, step, close_invocation)
    await lifecycle.closed(deps, step, ended)
    return ended


EFFECTS: tuple[EffectRow[Any], ...] = (
    StoreEffect(
        "open_invocation",
        OpenStep,
        Opened,
        _open,
        waits=lambda step: step.when_busy is not WhenBusy.REJECT,
    ),
    StepEffect(
        "call_model",
        ModelStep,
        StepResult,
        call_model,
        what=lambda step: f"A model call of {step.agent}",
        summary=lambda step: f"{step.agent}: {step.model}" if step.model else step.agent,
    ),
    StepEffect(
        "call_tool",
        ToolStep,
        StepResult,
        call_tool,
        what=lambda step: f"Tool {step.tool!r}",
        summary=lambda step: step.tool,
    ),
    StepEffect(
        "execute_code",
        CodeStep,
        StepResult,
        execute_code,
        what=lambda step: f"The code of {step.agent}",
        summary=lambda step: step.agent,
        span=lambda _: "execute_code",
    ),
    StepEffect(
        "run_callback",
        CallbackStep,
        StepResult,
        run_callback,
        what=lambda step: f"{step.hook}_callback of {step.agent}",
        summary=lambda step: f"{step.agent} {step.hook}",
        span=lambda step: f"run_callback {step.hook}",
    ),
    StepEffect(
        "run_function",
        FunctionStep,
        StepResult,
        run_function,
        what=lambda step: f"{step.function} of {step.agent}",
        summary=lambda step: f"{step.agent} {step.function}",
        span=lambda step: f"run_function {step.function}",
        commits=False,
    ),
    StepEffect(
        "run_hook",
        HookStep,
        StepResult,
        run_hook,
        what=lambda step: f"{step.hook} of the plugins",
        summary=lambda step: step.hook,
        commits=False,
    ),
    StoreEffect("commit_event", CommitStep, int, commit_event),
    StoreEffect("pause_invocation", PauseStep, bool, _pause),
    StoreEffect("take_answer", AnswerStep, AnswerTaken, _take, waits=lambda _: True),
    # Closing waits for the session if the invocation was paused.
    StoreEffect("close_invocation", CloseStep, Ending, _close, waits=lambda _: True),
    CodeEffect(
        "compact",
        CompactStep,
        type(None),
        lambda deps, step, _: compact(deps, step),
        what=lambda step: f"The summary after {step.invocation_id}",
        summary=lambda step: step.invocation_id,
    ),
    StoreEffect("save_place", SaveCheckpointStep, str, checkpoint.save_checkpoint),
    StoreEffect("save_trace", SaveJournalStep, type(None), checkpoint.save_journal),
    StoreEffect("read_place", ReadCheckpointStep, LoadedCheckpoint, checkpoint.read_checkpoint),
    StoreEffect("read_traces", ReadJournalStep, JournalPage, checkpoint.read_journals),
)

_ROWS: dict[type[Any], EffectRow[Any]] = {row.step: row for row in EFFECTS}


def row_of(step: Effect[R]) -> EffectRow[R]:
    """Return the table row of a step."""
    return _ROWS[type(step)]


class EffectPerformer:
    """Performs effects in this process: one attempt per call if the caller counts attempts."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps

    async def perform(self, step: Effect[R], attempt: EffectAttempt | None = None) -> R:
        """Perform one attempt. Without `attempt`, tools that request a retry are retried here."""
        row, this = row_of(step), attempt or EffectAttempt()
        while True:
            try:
                return await row.perform(self.deps, step, this)
            except RetryLater as again:
                if attempt is not None:
                    raise
                number, history = this.number, history_after(this.history, this.number, again)
                delay = again.delay
            await asyncio.sleep(delay)
            this = EffectAttempt(number=number + 1, history=history)

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """See `delegated.run_activity`; on Temporal, an external worker runs the activity."""
        return await delegated.run_activity(self.deps, step, call)

    async def wait_for_turn(self, step: queue.WaitingStep, busy: SessionBusyError) -> None:
        """See `queue.wait_locally`."""
        await queue.wait_locally(self.deps, step, busy)
