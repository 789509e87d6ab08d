"""The effects as Temporal activities: what is retried, and how a dead worker is noticed."""

from collections.abc import Callable
from typing import Any, Literal

from temporalio import activity

from durable_adk.activities.attempting import (
    attempting,
    transient,
    transient_or_busy,
    transient_or_elsewhere,
    translated,
    whole,
)
from durable_adk.activities.effects import WorldEffects
from durable_adk.activities.trials import Trials
from durable_adk.activities.user_loop import UserLoop
from durable_adk.activities.waiting import InPlace
from durable_adk.continuation import (
    Continued,
    ContinueStep,
    PlaceStep,
    SaveTraceStep,
    TracePage,
    TraceStep,
)
from durable_adk.errors import DurableAdkError
from durable_adk.messages import WhenBusy
from durable_adk.payloads import (
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


class InvocationActivities:
    """The activities of workflow type ``Invocation``. Their names are stable."""

    def __init__(self, effects: WorldEffects, user_loop: UserLoop) -> None:
        self._effects = effects
        self._user_loop = user_loop
        self._in_place = InPlace()

    def _trials(self, step: Step) -> Trials:
        return Trials(world=self._effects.world, step=step)

    def all(self) -> list[Callable[..., Any]]:
        """All of them, for a worker."""
        return [
            self.open_invocation,
            self.call_model,
            self.call_tool,
            self.execute_code,
            self.run_callback,
            self.run_function,
            self.run_hook,
            self.commit_event,
            self.pause_invocation,
            self.take_answer,
            self.close_invocation,
            self.compact,
            self.save_place,
            self.save_trace,
            self.read_place,
            self.read_traces,
        ]

    @activity.defn
    async def open_invocation(self, step: OpenStep) -> Opened:
        """Open; while the session is busy it waits, here or in this activity's next attempt."""
        waits = step.when_busy is not WhenBusy.REJECT

        def retry(error: DurableAdkError) -> bool:
            # A user's message is told at once that there is no such app; a step's question is not.
            before = activity.info().attempt - 1
            asked = step.tool_run is not None and transient_or_elsewhere(error, before=before)
            return asked or (transient_or_busy if waits else transient)(error)

        with translated(retry=retry):
            if not waits:
                return await whole(self._effects.open_invocation(step))
            return await self._in_place.attempt(
                self._effects.world, self._effects.open_invocation, step
            )

    @activity.defn
    async def call_model(self, step: ModelStep) -> StepResult:
        """Ask the model; transient failures are retried until `Limits.model_attempts`."""
        asks = self._effects.world.limits.model_attempts
        async with attempting(
            f"A model call of {step.agent}", trials=self._trials(step), asks=asks
        ) as this:
            work = self._effects.call_model(
                step, attempt=this.number, reports=this.reports, begins=this.begins
            )
            return await self._user_loop.run(work)

    @activity.defn
    async def call_tool(self, step: ToolStep) -> StepResult:
        """Run a tool; it runs again after a lost worker, or if its own retry policy says so."""
        async with attempting(f"Tool {step.tool!r}", trials=self._trials(step)) as this:
            work = self._effects.call_tool(
                step, attempt=this.number, reports=this.reports, begins=this.begins
            )
            return await self._user_loop.run(work)

    @activity.defn
    async def execute_code(self, step: CodeStep) -> StepResult:
        """Run code; only a lost worker makes it run again."""
        async with attempting(f"The code of {step.agent}", trials=self._trials(step)) as this:
            work = self._effects.execute_code(step, attempt=this.number, begins=this.begins)
            return await self._user_loop.run(work)

    @activity.defn
    async def run_function(self, step: FunctionStep) -> StepResult:
        """Run a custom agent's function; only a lost worker makes it run again."""
        async with attempting(
            f"{step.function} of {step.agent}", trials=self._trials(step)
        ) as this:
            work = self._effects.run_function(step, attempt=this.number, begins=this.begins)
            return await self._user_loop.run(work)

    @activity.defn
    async def run_callback(self, step: CallbackStep) -> StepResult:
        """Run agent callbacks; what they raise is final (TRAP-49)."""
        what = f"{step.hook}_callback of {step.agent}"
        async with attempting(what, trials=self._trials(step)) as this:
            work = self._effects.run_callback(step, attempt=this.number, begins=this.begins)
            return await self._user_loop.run(work)

    @activity.defn
    async def run_hook(self, step: HookStep) -> StepResult:
        """Run a hook of the plugins; what it raises is final (PLG-4)."""
        # Before the invocation is open there is nothing to note it by, so all that are lost count.
        trials = None if step.hook == "on_user_message_callback" else self._trials(step)
        async with attempting(f"{step.hook} of the plugins", trials=trials) as this:
            work = self._effects.run_hook(step, attempt=this.number, begins=this.begins)
            return await self._user_loop.run(work)

    @activity.defn
    async def commit_event(self, step: CommitStep) -> int:
        """Commit; retried until the store answers, always with the same event id."""
        with translated(retry=transient):
            return await whole(self._effects.commit_event(step))

    @activity.defn
    async def pause_invocation(self, step: PauseStep) -> Literal[False] | None:
        """Pause; retried until the store answers."""
        with translated(retry=transient):
            return await whole(self._effects.pause_invocation(step))

    @activity.defn
    async def take_answer(self, step: AnswerStep) -> AnswerTaken:
        """Take an answer; while the session is busy it waits, here or in its next attempt."""
        with translated(retry=transient_or_busy):
            return await self._in_place.attempt(
                self._effects.world, self._effects.take_answer, step
            )

    @activity.defn
    async def close_invocation(self, step: CloseStep) -> Ending:
        """Close; retried until the store answers, and the session is free if it was paused."""
        with translated(retry=transient_or_busy):
            return await self._in_place.attempt(
                self._effects.world, self._effects.close_invocation, step
            )

    @activity.defn
    async def compact(self, step: CompactStep) -> None:
        """Summarise; only a lost worker makes it run again."""
        async with attempting(f"The summary after {step.invocation_id}"):
            await self._user_loop.run(self._effects.compact(step))

    @activity.defn
    async def save_place(self, step: PlaceStep) -> None:
        """Write down where an invocation stands; retried until the store answers."""
        with translated(retry=transient):
            await whole(self._effects.save_place(step))

    @activity.defn
    async def save_trace(self, step: SaveTraceStep) -> None:
        """Write down what bodies were given; retried until the store answers."""
        with translated(retry=transient):
            await whole(self._effects.save_trace(step))

    @activity.defn
    async def read_place(self, step: ContinueStep) -> Continued:
        """Read it; retried until the store answers."""
        with translated(retry=transient):
            return await whole(self._effects.read_place(step))

    @activity.defn
    async def read_traces(self, step: TraceStep) -> TracePage:
        """Read traces; retried until the store answers."""
        with translated(retry=transient):
            return await whole(self._effects.read_traces(step))
