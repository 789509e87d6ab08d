"""Waiting for a service that does not answer for a moment."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from durable_adk.errors import StoreUnavailableError

T = TypeVar("T")
P = ParamSpec("P")
PATIENCE: Final = 10.0
"""Seconds that a tool's call of a service waits for an answer."""
PAUSE: Final = 0.3
"""Seconds until it is asked again."""
STREAMS: Final = ("save_artifact_stream",)
"""What is given chunks cannot be asked again: they are used up."""


def patient(service: T) -> T:
    """The service, whose calls are made again while its store does not answer.

    A call may then have been made twice, with the same arguments, as by two attempts of a step.
    """
    return cast("T", _Patient(service))


class _Patient:
    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._service, name)
        call: Any = found
        return found if name in STREAMS or not callable(found) else again(call, PATIENCE)


def again(
    call: Callable[P, Coroutine[Any, Any, T]], seconds: float
) -> Callable[P, Coroutine[Any, Any, T]]:
    """The call, made again for so many seconds while its store does not answer."""

    @wraps(call)
    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        until = time.monotonic() + seconds
        while True:
            try:
                return await call(*args, **kwargs)
            except StoreUnavailableError:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(PAUSE)

    return called
