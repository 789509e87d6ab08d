"""One attempt of a step: which errors are retried, and how the worker's heartbeat is sent."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from durable_adk.activities.lost_attempts import LostAttempts
from durable_adk.activities.tool.run import RetryLater, ToolsetUnavailable
from durable_adk.closing import uninterrupted
from durable_adk.errors import (
    AgentNotFoundError,
    DurableAdkError,
    ModelUnavailableError,
    NewerReleaseError,
    RunError,
    SessionBusyError,
    StoreUnavailableError,
    TransientError,
    UnknownAppError,
    WorkerStuckError,
    as_detail,
    class_name,
    raised,
    storable,
)
from durable_adk.heartbeat import NO_ATTEMPTS, AttemptHistory
from durable_adk.wire.effect import EffectAttempt

T = TypeVar("T")
MAX_LOST = 10
"""Attempts of a step that may be lost with their workers."""
MAX_UNREGISTERED = 10
"""How often a step is given back whose agent is not here."""
WAIT_SHARE = 0.7
"""Of the time until a ticket's turn, as it is estimated, after which it is asked again."""
IN_PLACE_TICKETS = 4
"""Tickets of a session whose attempts may wait in place."""
IN_PLACE_TIMEOUT = 10.0
"""Seconds that an attempt waits in place."""
MIN_BUSY_DELAY = 0.25
MAX_BUSY_DELAY = 20.0
"""Seconds. The tickets of resumptions outlive it, see `_pausing.RESUMING_TTL`."""
UNREGISTERED_DELAY = 0.5
"""Seconds until a step that another worker has to do is offered to the workers again."""
STORE_DELAY = 2.0
"""Seconds at most until a step asks a store again that does not answer; the engine's own delay
would grow to half a minute, and the step go on so long after the store."""
_EAGER = 5  # attempts in which the engine's delay is shorter

_NOT_HERE = (AgentNotFoundError, UnknownAppError)
_OTHER_WORKER = (*_NOT_HERE, WorkerStuckError)

Retry = Callable[[DurableAdkError], bool]


@dataclass(frozen=True, kw_only=True)
class StepAttempt(EffectAttempt):
    """The attempt that is made, of an activity."""

    what: str
    """For messages."""
    trials: LostAttempts | None = None
    """Which of the lost ones count; None: all."""
    is_local: bool = False
    """Such a one is not given up, and has no details: its worker's death makes it a first one."""

    @property
    def counted(self) -> int:
        """Its number without those that are excused."""
        return self.history.counted(self.number)

    @property
    def elsewhere(self) -> int:
        """How often the step was given back before, as the worker did not know its agent."""
        return self.number - 1 if self.is_local else self.history.elsewhere

    @property
    def leaving(self) -> AttemptHistory:
        """What the next one is to know should this one end with its worker, which is told to."""
        return self.history.after(self.number, excused=True)

    async def begins(self) -> None:
        """To be awaited when all is read, right before the step's code.

        Raises:
            RunError: Too many were lost while theirs ran.
        """
        if self.trials is not None:
            await self.check_lost()

    async def check_lost(self) -> None:
        """Raise RunError if too many attempts were lost, each with its worker.

        What kills workers, by using up the memory or calling `os._exit`, must not go on to the
        next one for ever (F12).
        """
        lost = 0 if self.is_local else len(self.history.lost(self.number))
        if lost and self.trials is not None:
            lost = await self.trials.begin(self.number, self.history)
        if lost >= MAX_LOST:
            raise RunError(
                f"{self.what} was given up: its worker was lost, or did not report back, {lost} "
                "times. Look for what ends the process, or blocks it."
            )

    def tell(self, history: AttemptHistory) -> None:
        """Have the next one know this."""
        if not self.is_local:
            activity.heartbeat(*history.details())


def to_application_error(
    error: BaseException, *, retry: bool, number: int | None = None, delay: float | None = None
) -> ApplicationError:
    """An exception as it crosses to the workflow: class, message, and whether to try again.

    Args:
        error: The exception.
        retry: Whether to try again.
        number: Of the attempt, without those that do not count; None: the engine's.
        delay: Seconds until then; None: as the error has it, or else the engine.
    """
    if not isinstance(error, DurableAdkError):
        error = raised(RunError, type(error).__name__, str(error))
    category = ApplicationErrorCategory.UNSPECIFIED
    if isinstance(error, SessionBusyError):
        # Waiting for the session is this activity's retries: no history, and no news (D7).
        category = ApplicationErrorCategory.BENIGN
    if delay is None:
        delay = _delay(error, number or activity.info().attempt)
    detail, message = as_detail(error), error.message
    if retry:
        # Of a large failure the server would show only that it was large (`converter.MAX_WAITING`).
        message, detail["message"] = storable(message, 300), storable(message, 1_000)
    return ApplicationError(
        message,
        detail,
        type=class_name(error),
        non_retryable=not retry,
        next_retry_delay=timedelta(seconds=delay) if retry and delay is not None else None,
        category=category,
    )


def _delay(error: DurableAdkError, number: int) -> float | None:
    """Seconds until the next attempt; None: as the engine has it."""
    if isinstance(error, ModelUnavailableError):
        return error.delay(number)
    if isinstance(error, SessionBusyError):
        return busy_delay(error)
    if isinstance(error, _OTHER_WORKER):
        return UNREGISTERED_DELAY
    if isinstance(error, StoreUnavailableError) and activity.info().attempt > _EAGER:
        return STORE_DELAY
    return None


def busy_delay(error: SessionBusyError) -> float:
    """Seconds until the next attempt of who waits for a session.

    Who is among the first NEXT waits in place if there is room. The others come among them when
    those ahead have run, which may be quick ones behind a long one: they ask again before that, and
    the seldomer the more come first. So 200 that wait for a session together make some thirty
    attempts a second, and 500 fewer than fifty.
    """
    most = (
        IN_PLACE_TIMEOUT
        if error.ahead < IN_PLACE_TICKETS
        else min(_soonest(error.ahead), MAX_BUSY_DELAY)
    )
    return max(min(error.remaining * WAIT_SHARE, most), MIN_BUSY_DELAY)


def _soonest(ahead: int) -> float:
    """Seconds in which so many quick turns may be over; those far back need not know as well."""
    return 0.1 * ahead + 0.1 * max(ahead - 3 * IN_PLACE_TICKETS, 0)


@contextmanager
def application_errors(*, retry: Retry, number: int | None = None) -> Generator[None]:
    """Turn what the effect raises into an ApplicationError; ours are retried as `retry` says."""
    try:
        yield
    except DurableAdkError as error:
        raise to_application_error(error, retry=retry(error), number=number) from error
    except RetryLater as again:
        raise to_application_error(again.error, retry=True, delay=again.delay) from again
    except asyncio.CancelledError:
        raise
    except NewerReleaseError as error:
        raise to_application_error(error, retry=True, number=number) from error
    except MemoryError as error:
        # The process's, which others may have used up (F44); what a tool raises is its result.
        raise to_application_error(
            error, retry=number is None or number <= MAX_LOST, number=number
        ) from error
    except BaseException as error:
        # Not foreseen, so a fault of ours: trying again would hang the run (D11).
        raise to_application_error(error, retry=False) from error


def transient(error: DurableAdkError) -> bool:
    """Retry only transient errors."""
    return isinstance(error, TransientError)


def transient_or_busy(error: DurableAdkError) -> bool:
    """Retry transient errors, and a session that another invocation holds."""
    return transient(error) or isinstance(error, SessionBusyError)


def transient_or_unregistered(error: DurableAdkError, *, before: int) -> bool:
    """Retry what passes by itself, and for some seconds what another worker may know.

    While a deploy goes on, a step of an agent that only the new workers have may come to an old
    one, as often as not several times. An agent that is gone everywhere is told after as many.

    Args:
        error: What was raised.
        before: How often the step was given back before.
    """
    return transient(error) or (isinstance(error, _NOT_HERE) and before + 1 < MAX_UNREGISTERED)


@asynccontextmanager
async def step_attempt(
    what: str, *, trials: LostAttempts | None = None, asks: int | None = None
) -> AsyncGenerator[StepAttempt]:
    """One attempt of a step with code of a user, or a model, in it.

    What the step needs and does not get (the store, a worker that knows its agent) never ends it:
    it is tried again, and such attempts do not count; nor do those that a deploy ends. Those that
    are lost do, if they may have run its code.

    Args:
        what: For the message.
        trials: Which of the lost attempts count, as the body tells by `StepAttempt.begins`; None:
            all, and the body need not tell.
        asks: How often a model that is unavailable is asked; None: there is none.

    Raises:
        ApplicationError: The step has failed, or is to be tried again.
    """
    info = activity.info()
    history = AttemptHistory.of(info.heartbeat_details)
    this = StepAttempt(
        what=what, number=info.attempt, history=history, trials=trials, is_local=info.is_local
    )

    def retry(error: DurableAdkError) -> bool:
        if isinstance(error, ModelUnavailableError) and asks is not None and this.counted >= asks:
            return False
        return transient_or_unregistered(error, before=this.elsewhere)

    with application_errors(retry=retry, number=this.counted):
        try:
            async with heartbeating(history, leaving=this.leaving):
                if trials is None:
                    await this.check_lost()
                yield this
        except (DurableAdkError, RetryLater, MemoryError) as error:
            # The engine keeps it, together with the failure, for the next attempt. Of a step that
            # has blocked its worker nothing is told: it counts as lost, or it would go on for ever.
            if not (isinstance(error, WorkerStuckError) and error.suspected):
                this.tell(history_after(history, this.number, error))
            raise
        except asyncio.CancelledError:
            if activity.is_worker_shutdown():
                this.tell(this.leaving)
            raise


def history_after(history: AttemptHistory, number: int, error: BaseException) -> AttemptHistory:
    """The attempt history after an attempt has ended with an error."""
    elsewhere, away = isinstance(error, _NOT_HERE), isinstance(error, ToolsetUnavailable)
    missing = isinstance(error, TransientError) and not isinstance(error, ModelUnavailableError)
    excused = elsewhere or away or missing
    return history.after(number, excused=excused, elsewhere=elsewhere, away=away)


@asynccontextmanager
async def heartbeating(
    history: AttemptHistory = NO_ATTEMPTS, *, leaving: AttemptHistory | None = None
) -> AsyncGenerator[None]:
    """Heartbeat while the body runs; a cancellation comes back on the same way (D11).

    Args:
        history: To be known to the next attempt, should this one be lost: a heartbeat replaces
            the details of those before it.
        leaving: The same from when the worker is told to end: code that does not let itself be
            cancelled is lost with it, and that says nothing of the code.
    """
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(timeout.total_seconds() / 4)
            told = leaving if leaving is not None and activity.is_worker_shutdown() else history
            activity.heartbeat(*told.details())

    beater = asyncio.create_task(beat())
    try:
        yield
    finally:
        beater.cancel()


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Finish a store operation although it is cancelled: its result must be known."""
    async with heartbeating():
        return await uninterrupted(work)
