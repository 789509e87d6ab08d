"""The effects of one worker: the functions of this package over one `World`."""

import asyncio
from typing import Any, Literal

from durable_adk.activities import (
    activity_answer,
    callback,
    code,
    commit,
    compacting,
    continuing,
    ending,
    function,
    hooks,
    model,
    opening,
    pausing,
    telling,
    tool,
    waiting,
)
from durable_adk.activities.attempting import reported
from durable_adk.activities.granted import committed
from durable_adk.activities.tool_run import RunAgain
from durable_adk.activities.trials import Begins, uncounted
from durable_adk.activities.world import World
from durable_adk.activity_calls import ActivityCall
from durable_adk.continuation import (
    Continued,
    ContinueStep,
    PlaceStep,
    SaveTraceStep,
    TracePage,
    TraceStep,
)
from durable_adk.errors import SessionBusyError
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
    StepResult,
    ToolStep,
)
from durable_adk.reports import NONE, Reports


class WorldEffects:
    """Implements `runtime.Effects`; one attempt each, whoever calls decides about more."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def open_invocation(self, step: OpenStep) -> Opened:
        """See `opening.open_invocation`."""
        try:
            opened = await opening.open_invocation(self.world, step)
        except SessionBusyError:
            telling.opening_waits(step)
            raise
        telling.opened(step, opened)
        return opened

    async def wait_for_turn(
        self, step: OpenStep | AnswerStep | CloseStep, busy: SessionBusyError
    ) -> None:
        """See `waiting.wait_locally`."""
        await waiting.wait_locally(self.world, step, busy)

    async def call_model(
        self,
        step: ModelStep,
        *,
        attempt: int = 1,
        reports: Reports = NONE,
        begins: Begins = uncounted,
    ) -> StepResult:
        """See `model.call_model`."""
        with telling.told("call_model", step, attempt=attempt):
            work = model.call_model(
                self.world, step, attempt=attempt, reports=reports, begins=begins
            )
            return await committed(self.world, step, work, attempt=attempt, reports=reports)

    async def call_tool(
        self,
        step: ToolStep,
        *,
        attempt: int | None = None,
        reports: Reports = NONE,
        begins: Begins = uncounted,
    ) -> StepResult:
        """See `tool.call_tool`; who counts no attempts leaves it to this to run a tool again."""
        number = attempt or 1
        while True:
            try:
                with telling.told("call_tool", step, attempt=number):
                    work = tool.call_tool(
                        self.world, step, attempt=number, reports=reports, begins=begins
                    )
                    return await committed(self.world, step, work, attempt=number, reports=reports)
            except RunAgain as again:
                if attempt is not None:
                    raise
                reports, delay = reported(reports, number, again), again.delay
            await asyncio.sleep(delay)
            number += 1

    async def run_function(
        self, step: FunctionStep, *, attempt: int = 1, begins: Begins = uncounted
    ) -> StepResult:
        """See `function.run_function`."""
        shown = f"run_function {step.function}"
        with telling.told("run_function", step, attempt=attempt, shown=shown):
            return await function.run_function(self.world, step, begins=begins)

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """See `activity_answer.run_activity`; on Temporal a worker of others runs it."""
        return await activity_answer.run_activity(self.world, step, call)

    async def execute_code(
        self, step: CodeStep, *, attempt: int = 1, begins: Begins = uncounted
    ) -> StepResult:
        """See `code.execute_code`."""
        with telling.told("execute_code", step, attempt=attempt, shown="execute_code"):
            work = code.execute_code(self.world, step, begins=begins)
            return await committed(self.world, step, work, attempt=attempt)

    async def run_callback(
        self, step: CallbackStep, *, attempt: int = 1, begins: Begins = uncounted
    ) -> StepResult:
        """See `callback.run_callback`."""
        shown = f"run_callback {step.hook}"
        with telling.told("run_callback", step, attempt=attempt, shown=shown):
            work = callback.run_callback(self.world, step, begins=begins)
            return await committed(self.world, step, work, attempt=attempt)

    async def run_hook(
        self, step: HookStep, *, attempt: int = 1, begins: Begins = uncounted
    ) -> StepResult:
        """See `hooks.run_hook`."""
        with telling.told("run_hook", step, attempt=attempt):
            return await hooks.run_hook(self.world, step, begins=begins)

    async def commit_event(self, step: CommitStep) -> int:
        """See `commit.commit_event`."""
        return await commit.commit_event(self.world, step)

    async def pause_invocation(self, step: PauseStep) -> Literal[False] | None:
        """See `pausing.pause_invocation`."""
        paused = await pausing.pause_invocation(self.world, step)
        if paused is not False:
            telling.paused(step.key)
        return paused

    async def take_answer(self, step: AnswerStep) -> AnswerTaken:
        """See `pausing.take_answer`."""
        return await pausing.take_answer(self.world, step)

    async def close_invocation(self, step: CloseStep) -> Ending:
        """See `ending.close_invocation`."""
        ended = await ending.close_invocation(self.world, step)
        await telling.closed(self.world, step, ended)
        return ended

    async def compact(self, step: CompactStep) -> None:
        """See `compacting.compact`."""
        await compacting.compact(self.world, step)

    async def save_place(self, step: PlaceStep) -> None:
        """See `continuing.save_place`."""
        await continuing.save_place(self.world, step)

    async def save_trace(self, step: SaveTraceStep) -> None:
        """See `continuing.save_trace`."""
        await continuing.save_trace(self.world, step)

    async def read_place(self, step: ContinueStep) -> Continued:
        """See `continuing.read_place`."""
        return await continuing.read_place(self.world, step)

    async def read_traces(self, step: TraceStep) -> TracePage:
        """See `continuing.read_traces`."""
        return await continuing.read_traces(self.world, step)
