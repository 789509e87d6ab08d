"""Retries for services that are briefly unavailable."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from durable_adk.errors import StoreUnavailableError

T = TypeVar("T")
P = ParamSpec("P")
PATIENCE: Final = 10.0
"""Seconds for which a tool's call to a service is retried."""
PAUSE: Final = 0.3
"""Seconds between retries."""
STREAMS: Final = ("save_artifact_stream",)
"""Methods that consume a stream of chunks and so cannot be retried."""


def patient(service: T) -> T:
    """Wrap a service so that its calls are retried while its store is unavailable.

    A call may then take effect twice with the same arguments, as by two attempts of a step.
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
    """Wrap a function so that it is retried for `seconds` while its store is unavailable."""

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
