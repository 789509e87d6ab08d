"""The effects of one worker: the functions of this package over one `World`."""

import asyncio

from durable_adk.activities import (
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
    tool,
)
from durable_adk.activities.granted import committed
from durable_adk.activities.reports import NONE, Reports
from durable_adk.activities.tool_run import RunAgain
from durable_adk.activities.world import World
from durable_adk.continuation import (
    Continued,
    ContinueStep,
    PlaceStep,
    SaveTraceStep,
    TracePage,
    TraceStep,
)
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


class WorldEffects:
    """Implements `runtime.Effects`; one attempt each, whoever calls decides about more."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def open_invocation(self, step: OpenStep) -> Opened:
        """See `opening.open_invocation`."""
        return await opening.open_invocation(self.world, step)

    async def call_model(
        self, step: ModelStep, *, attempt: int = 1, reports: Reports = NONE
    ) -> StepResult:
        """See `model.call_model`."""
        work = model.call_model(self.world, step, attempt=attempt, reports=reports)
        return await committed(self.world, step, work, attempt=attempt)

    async def call_tool(
        self, step: ToolStep, *, attempt: int | None = None, reports: Reports = NONE
    ) -> StepResult:
        """See `tool.call_tool`; who counts no attempts leaves it to this to run a tool again."""
        number = attempt or 1
        while True:
            work = tool.call_tool(self.world, step, attempt=number, reports=reports)
            try:
                return await committed(self.world, step, work, attempt=number)
            except RunAgain as again:
                if attempt is not None:
                    raise
                delay = again.delay
            await asyncio.sleep(delay)
            number += 1

    async def run_function(self, step: FunctionStep) -> StepResult:
        """See `function.run_function`."""
        return await function.run_function(self.world, step)

    async def execute_code(self, step: CodeStep, *, attempt: int = 1) -> StepResult:
        """See `code.execute_code`."""
        work = code.execute_code(self.world, step)
        return await committed(self.world, step, work, attempt=attempt)

    async def run_callback(self, step: CallbackStep, *, attempt: int = 1) -> StepResult:
        """See `callback.run_callback`."""
        work = callback.run_callback(self.world, step)
        return await committed(self.world, step, work, attempt=attempt)

    async def run_hook(self, step: HookStep) -> StepResult:
        """See `hooks.run_hook`."""
        return await hooks.run_hook(self.world, step)

    async def commit_event(self, step: CommitStep) -> int:
        """See `commit.commit_event`."""
        return await commit.commit_event(self.world, step)

    async def pause_invocation(self, step: PauseStep) -> None:
        """See `pausing.pause_invocation`."""
        await pausing.pause_invocation(self.world, step)

    async def take_answer(self, step: AnswerStep) -> AnswerTaken:
        """See `pausing.take_answer`."""
        return await pausing.take_answer(self.world, step)

    async def close_invocation(self, step: CloseStep) -> Ending:
        """See `ending.close_invocation`."""
        return await ending.close_invocation(self.world, step)

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
