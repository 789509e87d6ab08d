"""Retries of calls to services that are briefly unavailable, and how long each caller waits."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from durable_adk.errors import StoreUnavailableError
from durable_adk.log import get_logger

T = TypeVar("T")
P = ParamSpec("P")

# Timeouts for an unavailable service, in seconds, by caller.
STORE_TIMEOUT: Final = 30.0
"""A step, before its attempt ends and Temporal schedules another one."""
SERVICE_TIMEOUT: Final = 10.0
"""A tool's or callback's call of its session, artifact or memory service."""
OUTCOME_TIMEOUT: Final = 10.0
"""A finished step that has to store its outcome."""
COMMIT_TIMEOUT: Final = 2.0
"""A commit of its event by a second or later attempt, before the loop commits it."""
TOOLSET_TIMEOUT: Final = 2.0
"""A step's request to a toolset for its tools."""
CLIENT_TIMEOUT: Final = 60.0
"""A client that follows an invocation, and an invocation that runs in process."""
PAUSE: Final = 0.2
"""Seconds between retries."""

STREAMS: Final = ("save_artifact_stream",)
"""Methods that consume a stream of chunks and so cannot be retried."""

logger = get_logger(__name__)


class Deadline:
    """A point in time, by the monotonic clock, at which a wait ends.

    Args:
        seconds: The time from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._end = self._start + seconds

    def postpone(self, seconds: float) -> None:
        """Move the deadline to `seconds` after the start, unless it is later anyway."""
        self._end = max(self._end, self._start + seconds)

    def left(self) -> float:
        """Return the seconds until the deadline; negative if it has passed."""
        return self._end - time.monotonic()


def retrying(
    call: Callable[P, Coroutine[Any, Any, T]],
    deadline: Deadline | float,
    *,
    pause: float | None = None,
    on: type[Exception] = StoreUnavailableError,
    warns: bool = False,
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a function so that it is retried until a deadline while a service is unavailable.

    A call may then take effect twice with the same arguments, as with two attempts of a step.

    Args:
        call: The function.
        deadline: When its error is raised instead; a number is in seconds from each call.
        pause: Seconds between retries; None: `PAUSE`.
        on: The error that is retried.
        warns: Whether the first failure is logged.
    """

    @wraps(call)
    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        until, failed = deadline if isinstance(deadline, Deadline) else Deadline(deadline), False
        while True:
            try:
                return await call(*args, **kwargs)
            except on as error:
                if until.left() <= 0:
                    raise
                if warns and not failed:
                    kind = getattr(error, "error_type", type(error).__name__)
                    logger.warning("store.unavailable", error_type=kind)
                failed = True
            await asyncio.sleep(PAUSE if pause is None else pause)

    return called


def retrying_service(service: T) -> T:
    """Wrap a service so that its calls are retried while its store is unavailable."""
    return cast("T", _RetryingService(service))


class _RetryingService:
    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._service, name)
        call: Any = found
        return found if name in STREAMS or not callable(found) else retrying(call, SERVICE_TIMEOUT)
