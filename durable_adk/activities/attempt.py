"""One attempt of a step: the errors retried, and the lost attempts that count."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.heartbeats import Cancellations, heartbeating
from durable_adk.activities.tool.run import RetryLater, ToolsetUnavailable
from durable_adk.attempt_history import AttemptHistory
from durable_adk.calling import own_cancellation
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
    WebhookError,
    WorkerStuckError,
    as_detail,
    class_name,
    raised,
    storable,
    text_of,
    wrapped,
)
from durable_adk.log import get_logger
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.converter import shortened
from durable_adk.wire.effect import Attempt
from durable_adk.wire.steps import Step

T = TypeVar("T")
MAX_LOST = 10
"""Maximum number of attempts of a step that may be lost with their workers."""
MAX_UNREGISTERED = 10
"""Maximum number of times a step is returned because its agent is not registered on the worker."""
WAIT_SHARE = 0.7
"""Share of the estimated time until a ticket's turn after which the step is retried."""
IN_PLACE_TICKETS = 4
"""Number of tickets of a session whose attempts may wait in place."""
IN_PLACE_TIMEOUT = 10.0
"""Maximum seconds that an attempt waits in place."""
MIN_BUSY_DELAY = 0.25
MAX_BUSY_DELAY = 20.0
"""Seconds. Tickets of resumptions live longer than this, see `pause.RESUMING_TTL`."""
UNREGISTERED_DELAY = 0.5
"""Seconds until a step that needs another worker is retried."""
STORE_DELAY = 2.0
"""Maximum seconds between a step's retries while the store is unavailable. Temporal's own delay
would grow to half a minute, and the step would continue that much later than the store."""
_EAGER = 5  # attempts for which Temporal's own delay is shorter

STARTED: Final = "started"
"""Kind of the notes that record which attempts were about to run a step's code."""

_NOT_HERE = (AgentNotFoundError, UnknownAppError)
_OTHER_WORKER = (*_NOT_HERE, WorkerStuckError)

Retry = Callable[[DurableAdkError], bool]

logger = get_logger(__name__)


def _name(number: int) -> str:
    """Name an attempt's note by its activity, so that other activities are not counted."""
    info = activity.info()
    return f"{info.workflow_run_id}/{info.activity_id}/{number}"


@dataclass(frozen=True, kw_only=True)
class ActivityAttempt(Attempt):
    """The current attempt of an activity."""

    what: str
    """The step's description in messages."""
    deps: Dependencies
    noted_in: Step | None = None
    """The step whose invocation keeps notes of its attempts; None: all lost attempts count."""
    is_local: bool = False
    """Whether it is a local activity. Local activities have no heartbeat details, and their attempt
    counter restarts after a worker crash. So they are never given up."""

    @classmethod
    def current(cls, what: str, deps: Dependencies, noted_in: Step | None) -> "ActivityAttempt":
        """Return the attempt that the current activity is; see the fields."""
        info = activity.info()
        return cls(
            what=what,
            deps=deps,
            noted_in=noted_in,
            number=info.attempt,
            history=AttemptHistory.of(info.heartbeat_details),
            is_local=info.is_local,
        )

    @property
    def unregistered(self) -> int:
        """How often the step was returned because the worker did not know its agent."""
        return self.number - 1 if self.is_local else self.history.unregistered

    @property
    def leaving(self) -> AttemptHistory:
        """Attempt history to pass on if this attempt ends because its worker shuts down."""
        return self.history.leaving(self.number, self.deps.build)

    @property
    def is_leaving(self) -> bool:
        """Whether the worker shuts down."""
        return activity.is_worker_shutdown()

    def retries(self, error: DurableAdkError, max_attempts: int | None) -> bool:
        """Return whether the step is to be retried after an error.

        Args:
            error: The error.
            max_attempts: Most calls of an unavailable model; None: unlimited.
        """
        if max_attempts is not None and isinstance(error, ModelUnavailableError):
            return self.counted < max_attempts
        return transient_or_unregistered(error, before=self.unregistered)

    async def begins(self) -> None:
        """Record that the step's code is about to run; await it after reading all input.

        Raises:
            RunError: Too many attempts were lost while the step's code ran.
        """
        if self.noted_in is not None:
            await self.check_lost()

    async def check_lost(self) -> None:
        """Raise RunError if too many attempts were lost with their workers, or shut them down.

        Code that kills workers, by exhausting the memory or calling `os._exit`, must not be retried
        on worker after worker for ever (F12).
        """
        exits = self.history.exits
        if exits >= self.deps.limits.max_worker_exits:
            raise RunError(
                f"{self.what} was given up: {exits} workers of one build in a row were shut down "
                "(max_worker_exits) while it ran. Look for what shuts them down."
            )
        lost = 0 if self.is_local else len(self.history.lost(self.number))
        if lost and self.noted_in is not None:
            lost = await self.lost_in(self.noted_in)
        if lost >= MAX_LOST:
            raise RunError(
                f"{self.what} was given up: its worker was lost, or did not report back, {lost} "
                "times. Look for what ends the process, or blocks it."
            )

    async def lost_in(self, step: Step) -> int:
        """Note that this attempt will run the step's code; count the lost attempts that did.

        The notes are in the session store, written before the code runs, and only after an attempt
        was lost. Code that kills its worker does so while it runs. A worker that dies earlier, or
        while the step waits for the store, is no evidence against the step, and failing machines
        can lose many attempts that way. The first attempt writes no note and always counts.

        Raises:
            StoreUnavailableError: The note was not written, so the code must not run.
        """
        await self.deps.scope(step)  # waits for the store; dying here does not count
        key, invocation_id = step.key, step.invocation_id
        notes = await self.deps.sessions.read_notes(key, invocation_id=invocation_id, kind=STARTED)
        await self.deps.sessions.note(
            key, invocation_id=invocation_id, kind=STARTED, name=_name(self.number), body="{}"
        )
        started = {_name(1), *(note.name for note in notes)}
        return sum(_name(one) in started for one in self.history.lost(self.number))

    def heartbeating(self, key: SessionKey) -> AbstractAsyncContextManager[None]:
        """Send the attempt's heartbeats while the body runs; `key` is its session."""
        cancels = Cancellations(self.deps.sessions, key)
        return heartbeating(self.history, leaving=self.leaving, cancels=cancels)

    def report(self, history: AttemptHistory) -> None:
        """Send the history to the next attempt, in a heartbeat."""
        if not self.is_local:
            history.send()


def to_application_error(
    error: BaseException, *, retry: bool, number: int | None = None, delay: float | None = None
) -> ApplicationError:
    """Convert an exception for the workflow: class, message, and whether to retry.

    Args:
        error: The exception.
        retry: Whether the activity is to be retried.
        number: The attempt's number, not counting excused attempts; None: Temporal's number.
        delay: Seconds until the retry; None: the error's own delay, or else Temporal's.
    """
    if not isinstance(error, DurableAdkError):
        plain = isinstance(error, Exception)
        name = type(error).__name__
        error = wrapped(RunError, error) if plain else raised(RunError, name, text_of(error))
    category = ApplicationErrorCategory.UNSPECIFIED
    if isinstance(error, SessionBusyError):
        # This activity waits for the session by retrying, which adds no history events. It must
        # raise no alarm (D7).
        category = ApplicationErrorCategory.BENIGN
    if delay is None:
        delay = _delay(error, number or activity.info().attempt)
    detail, message = as_detail(error), error.message
    if retry:
        # The server would replace a large failure by a note on its size (`converter.MAX_WAITING`).
        detail = {**detail, "message": storable(message, 1_000)}
        detail.pop("user", None)
        message = storable(message, 300)
    return ApplicationError(
        message,
        detail,
        type=class_name(error),
        non_retryable=not retry,
        next_retry_delay=timedelta(seconds=delay) if retry and delay is not None else None,
        category=category,
    )


def _delay(error: DurableAdkError, number: int) -> float | None:
    """Return the seconds until the next attempt, or None for Temporal's delay."""
    if isinstance(error, ModelUnavailableError):
        return error.delay(number)
    if isinstance(error, WebhookError):
        return error.retry_after
    if isinstance(error, SessionBusyError):
        return busy_delay(error)
    if isinstance(error, _OTHER_WORKER):
        return UNREGISTERED_DELAY
    if isinstance(error, StoreUnavailableError) and activity.info().attempt > _EAGER:
        return STORE_DELAY
    return None


def busy_delay(error: SessionBusyError) -> float:
    """Return the seconds until the next attempt of a step that waits for its session.

    The first IN_PLACE_TICKETS tickets wait in place if there is capacity. The others advance as
    those ahead finish, perhaps several short turns after a long one. So they retry before the
    estimated time, and less often the more tickets are ahead. 200 steps that wait for one session
    make some thirty attempts a second, and 500 fewer than fifty.
    """
    most = (
        IN_PLACE_TIMEOUT
        if error.ahead < IN_PLACE_TICKETS
        else min(_soonest(error.ahead), MAX_BUSY_DELAY)
    )
    return max(min(error.remaining * WAIT_SHARE, most), MIN_BUSY_DELAY)


def _soonest(ahead: int) -> float:
    """Return the seconds in which `ahead` short turns may end, with more slack further back."""
    return 0.1 * ahead + 0.1 * max(ahead - 3 * IN_PLACE_TICKETS, 0)


@contextmanager
def application_errors(*, retry: Retry, number: int | None = None) -> Generator[None]:
    """Convert an exception of the body to an ApplicationError; `retry` decides for our errors."""
    try:
        yield
    except DurableAdkError as error:
        raise to_application_error(error, retry=retry(error), number=number) from shortened(error)
    except RetryLater as again:
        raise to_application_error(again.error, retry=True, delay=again.delay) from shortened(again)
    except asyncio.CancelledError:
        raise
    except NewerReleaseError as error:
        raise to_application_error(error, retry=True, number=number) from shortened(error)
    except MemoryError as error:
        # The process is out of memory, perhaps because of other work (F44). A tool's own
        # MemoryError is the tool's result instead.
        raise to_application_error(
            error, retry=number is None or number <= MAX_LOST, number=number
        ) from shortened(error)
    except BaseException as error:  # noqa: BLE001 - it is raised again
        # Unexpected, so a bug in this package: retrying would hang the run (D11).
        raise to_application_error(error, retry=False) from shortened(error)


def transient(error: DurableAdkError) -> bool:
    """Retry only transient errors."""
    return isinstance(error, TransientError)


def transient_or_busy(error: DurableAdkError) -> bool:
    """Retry transient errors, and a session whose lease another invocation owns."""
    return transient(error) or isinstance(error, SessionBusyError)


def transient_or_unregistered(error: DurableAdkError, *, before: int) -> bool:
    """Retry transient errors, and for some seconds an agent that another worker may know.

    During a deploy, an old worker may receive a step of an agent that only the new workers have,
    several times. After MAX_UNREGISTERED returns the agent is reported as unknown.

    Args:
        error: The exception.
        before: How often the step was returned before.
    """
    return transient(error) or (isinstance(error, _NOT_HERE) and before + 1 < MAX_UNREGISTERED)


@asynccontextmanager
async def step_attempt(
    what: str,
    deps: Dependencies,
    key: SessionKey,
    *,
    noted_in: Step | None = None,
    counts_lost: bool = True,
    max_attempts: int | None = None,
) -> AsyncGenerator[ActivityAttempt]:
    """Run the body as one attempt of a step that runs user code or calls a model.

    A missing requirement (the store, a worker that knows the agent) never fails the step: it is
    retried. Such attempts do not count, nor do those that a deploy ends. Lost attempts count if
    they may have run the step's code.

    Args:
        what: The step's description in messages.
        deps: The stores, and the limits.
        key: The session.
        noted_in: See `ActivityAttempt`; the body calls `begins`. None: it need not.
        counts_lost: Whether lost attempts are counted here if there is no `noted_in`.
        max_attempts: Most calls of an unavailable model; None: the step calls no model.

    Raises:
        ApplicationError: The step has failed, or is to be retried.
    """
    this = ActivityAttempt.current(what, deps, noted_in)

    def retry(error: DurableAdkError) -> bool:
        return this.retries(error, max_attempts)

    with application_errors(retry=retry, number=this.counted):
        try:
            async with this.heartbeating(key):
                if noted_in is None and counts_lost:
                    await this.check_lost()
                yield this
        except (DurableAdkError, RetryLater, MemoryError) as error:
            # Temporal keeps the details for the next attempt. A step that has blocked its worker
            # sends none, so that it counts as lost: otherwise it would be retried for ever.
            if not (isinstance(error, WorkerStuckError) and error.suspected):
                this.report(history_after(this.history, this.number, error))
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if this.is_leaving:
                this.report(this.leaving)
            elif task is not None and not task.cancelling():  # code cancelled the loop's tasks
                raise wrapped(RunError, own_cancellation(error)) from error
            raise


def history_after(history: AttemptHistory, number: int, error: BaseException) -> AttemptHistory:
    """Return the attempt history after an attempt that ended with an error."""
    unregistered, toolset_failures = (
        isinstance(error, _NOT_HERE),
        isinstance(error, ToolsetUnavailable),
    )
    missing = isinstance(error, TransientError) and not isinstance(error, ModelUnavailableError)
    excused = unregistered or toolset_failures or missing
    return history.after(
        number, excused=excused, unregistered=unregistered, toolset_failures=toolset_failures
    )
