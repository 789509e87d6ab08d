"""The effects as Temporal activities: what is retried, and how a dead worker is noticed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from durable_adk.activities.effects import WorldEffects
from durable_adk.activities.tool_run import RunAgain
from durable_adk.closing import uninterrupted
from durable_adk.continuation import (
    Continued,
    ContinueStep,
    PlaceStep,
    SaveTraceStep,
    TracePage,
    TraceStep,
)
from durable_adk.errors import (
    AgentNotFoundError,
    DurableAdkError,
    ModelUnavailableError,
    RunError,
    SessionBusyError,
    TransientError,
    UnknownAppError,
    as_detail,
    class_name,
    raised,
)
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
    StepResult,
    ToolStep,
)

T = TypeVar("T")
MAX_ATTEMPTS = 10
"""Attempts of a step, most of them lost with their workers."""
BUSY_DELAY = 0.1
"""Seconds."""
ELSEWHERE_DELAY = 0.5
"""Seconds until a step whose agent is not here is offered to the workers again."""


_NOT_HERE = (AgentNotFoundError, UnknownAppError)


def to_application_error(
    error: BaseException, *, retry: bool, delay: float | None = None
) -> ApplicationError:
    """An exception as it crosses to the workflow: class, message, and whether to try again.

    Args:
        error: The exception.
        retry: Whether to try again.
        delay: Seconds until then; None: as the error has it, or else the engine.
    """
    attempt = activity.info().attempt
    if not isinstance(error, DurableAdkError):
        error = raised(RunError, type(error).__name__, str(error))
    category = ApplicationErrorCategory.UNSPECIFIED
    if isinstance(error, ModelUnavailableError):
        delay = error.delay(attempt)
    if isinstance(error, SessionBusyError):
        # Waiting for the session is this activity's retries: no history, and no news (D7).
        delay, category = BUSY_DELAY, ApplicationErrorCategory.BENIGN
    if isinstance(error, _NOT_HERE):
        delay = ELSEWHERE_DELAY
    return ApplicationError(
        error.message,
        as_detail(error),
        type=class_name(error),
        non_retryable=not retry,
        next_retry_delay=timedelta(seconds=delay) if retry and delay is not None else None,
        category=category,
    )


@contextmanager
def translated(*, retry: Callable[[DurableAdkError], bool]) -> Generator[None]:
    """Turn what the effect raises into an ApplicationError; ours are retried as `retry` says."""
    try:
        yield
    except DurableAdkError as error:
        raise to_application_error(error, retry=retry(error)) from error
    except RunAgain as again:
        raise to_application_error(again.error, retry=True, delay=again.delay) from again
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # Not foreseen, so a fault of ours: trying again would hang the run (D11).
        raise to_application_error(error, retry=False) from error


def check_attempt(what: str, *, more: int = 0) -> int:
    """The attempt's number, unless it is one too many.

    Args:
        what: For the message.
        more: Attempts that may be needed for another reason than a lost worker.

    Raises:
        RunError: Earlier ones were lost, each with its worker. What kills workers, by using up the
            memory or calling `os._exit`, must not go on to the next one for ever (F12).
    """
    attempt = activity.info().attempt
    if attempt > MAX_ATTEMPTS + more:
        raise RunError(
            f"{what} was given up: its worker was lost, or did not report back, "
            f"{attempt - 1} times. Look for what ends the process, or blocks it."
        )
    return attempt


def transient(error: DurableAdkError) -> bool:
    """Retry whatever passes by itself."""
    return isinstance(error, TransientError)


def transient_or_elsewhere(error: DurableAdkError) -> bool:
    """Retry what passes by itself, and for some seconds what another worker may know.

    While a deploy goes on, a step of an agent that only the new workers have may come to an old
    one, as often as not several times. An agent that is gone everywhere is told after as many.
    """
    return transient(error) or (
        isinstance(error, _NOT_HERE) and activity.info().attempt < MAX_ATTEMPTS
    )


def transient_or_busy(error: DurableAdkError) -> bool:
    """Retry whatever passes by itself, the other invocation of the session included."""
    return transient(error) or isinstance(error, SessionBusyError)


class UserLoop:
    """A thread with an event loop for user code.

    An async tool that blocks (`time.sleep`, `requests`) stops this loop, not the worker's: the
    heartbeats go on, so the server does not take the worker for dead and run the tool again.
    """

    def __init__(self, threads: int = 64) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(threads, "durable-adk-user"))
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="durable-adk-user-loop", daemon=True
        )
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its end.

        Cancelling the wait cancels the work, and then waits on: work that finishes all the same,
        because it was committing, still has a result.
        """
        tasks: list[asyncio.Task[T]] = []
        cancelled = threading.Event()

        async def supervised() -> T:
            tasks.append(asyncio.ensure_future(work))
            if cancelled.is_set():  # before this loop came to it
                tasks[0].cancel()
            return await tasks[0]

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        done = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(supervised(), self._loop))
        while True:
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                if done.done():
                    return done.result()
                cancelled.set()
                self._loop.call_soon_threadsafe(cancel)

    async def close(self) -> None:
        """Stop the thread, leaving behind sync functions that do not end."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, 5.0)
        if not self._loop.is_running():
            self._loop.close()


@asynccontextmanager
async def beating() -> AsyncGenerator[None]:
    """Heartbeat while the body runs; a cancellation comes back on the same way (D11)."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(timeout.total_seconds() / 4)
            activity.heartbeat()

    beater = asyncio.create_task(beat())
    try:
        yield
    finally:
        beater.cancel()


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Do a store's work to its end, though cancelled: what it has written must be known."""
    async with beating():
        return await uninterrupted(work)


class InvocationActivities:
    """The activities of workflow type ``Invocation``. Their names are stable."""

    def __init__(self, effects: WorldEffects, user_loop: UserLoop) -> None:
        self._effects = effects
        self._user_loop = user_loop

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
        """Open; while the session is busy an enqueued message is this activity's next attempt."""
        waits = step.when_busy is not WhenBusy.REJECT

        def retry(error: DurableAdkError) -> bool:
            # A user's message is told at once that there is no such app; a step's question is not.
            asked = step.tool_run is not None and transient_or_elsewhere(error)
            return asked or (transient_or_busy if waits else transient)(error)

        with translated(retry=retry):
            return await whole(self._effects.open_invocation(step))

    @activity.defn
    async def call_model(self, step: ModelStep) -> StepResult:
        """Ask the model; transient failures are retried until `Limits.model_attempts`."""
        attempt = activity.info().attempt
        last = attempt >= self._effects.world.limits.model_attempts

        def retry(error: DurableAdkError) -> bool:
            exhausted = last and isinstance(error, ModelUnavailableError)
            return transient_or_elsewhere(error) and not exhausted

        with translated(retry=retry):
            check_attempt(f"A model call of {step.agent}")
            async with beating():
                return await self._user_loop.run(self._effects.call_model(step, attempt=attempt))

    @activity.defn
    async def call_tool(self, step: ToolStep) -> StepResult:
        """Run a tool; it runs again after a lost worker, or if its own retry policy says so."""
        with translated(retry=transient_or_elsewhere):
            retry = step.spec.retry if step.spec else None
            attempt = check_attempt(f"Tool {step.tool!r}", more=retry.max_attempts if retry else 0)
            async with beating():
                return await self._user_loop.run(self._effects.call_tool(step, attempt=attempt))

    @activity.defn
    async def execute_code(self, step: CodeStep) -> StepResult:
        """Run code; only a lost worker makes it run again."""
        with translated(retry=transient_or_elsewhere):
            attempt = check_attempt(f"The code of {step.agent}")
            async with beating():
                return await self._user_loop.run(self._effects.execute_code(step, attempt=attempt))

    @activity.defn
    async def run_function(self, step: FunctionStep) -> StepResult:
        """Run a custom agent's function; only a lost worker makes it run again."""
        with translated(retry=transient_or_elsewhere):
            check_attempt(f"{step.function} of {step.agent}")
            async with beating():
                return await self._user_loop.run(self._effects.run_function(step))

    @activity.defn
    async def run_callback(self, step: CallbackStep) -> StepResult:
        """Run agent callbacks; what they raise is final (TRAP-49)."""
        with translated(retry=transient_or_elsewhere):
            attempt = check_attempt(f"{step.hook}_callback of {step.agent}")
            async with beating():
                return await self._user_loop.run(self._effects.run_callback(step, attempt=attempt))

    @activity.defn
    async def run_hook(self, step: HookStep) -> StepResult:
        """Run a hook of the plugins; what it raises is final (PLG-4)."""
        with translated(retry=transient_or_elsewhere):
            check_attempt(f"{step.hook} of the plugins")
            async with beating():
                return await self._user_loop.run(self._effects.run_hook(step))

    @activity.defn
    async def commit_event(self, step: CommitStep) -> int:
        """Commit; retried until the store answers, always with the same event id."""
        with translated(retry=transient):
            return await whole(self._effects.commit_event(step))

    @activity.defn
    async def pause_invocation(self, step: PauseStep) -> None:
        """Pause; retried until the store answers."""
        with translated(retry=transient):
            await whole(self._effects.pause_invocation(step))

    @activity.defn
    async def take_answer(self, step: AnswerStep) -> AnswerTaken:
        """Take an answer; while the session is busy it is this activity's next attempt."""
        with translated(retry=transient_or_busy):
            return await whole(self._effects.take_answer(step))

    @activity.defn
    async def close_invocation(self, step: CloseStep) -> Ending:
        """Close; retried until the store answers, and the session is free if it was paused."""
        with translated(retry=transient_or_busy):
            return await whole(self._effects.close_invocation(step))

    @activity.defn
    async def compact(self, step: CompactStep) -> None:
        """Summarise; only a lost worker makes it run again."""
        with translated(retry=transient):
            check_attempt(f"The summary after {step.invocation_id}")
            async with beating():
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
