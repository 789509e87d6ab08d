"""Waiting for states, never for seconds: a slow machine takes longer and passes all the same."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

PATIENCE = 100.0
"""Seconds after which a state is taken to be out of reach. Only a hang lasts so long."""
PAUSE = 0.02
"""Seconds between two looks."""
QUIET = 0.5
"""Seconds for which `stays` watches."""


async def until(condition: Callable[[], T | Awaitable[T]], patience: float = PATIENCE) -> T:
    """Wait until a condition is true, and return its value.

    Raises:
        TimeoutError: It has not become true; the message has its last value.
    """
    deadline = time.monotonic() + patience
    while not (value := await _value(condition)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{_name(condition)} is still {value!r}")
        await asyncio.sleep(PAUSE)
    return value


def until_true(condition: Callable[[], T], *, patience: float = PATIENCE) -> T:
    """Block until a condition is true, and return its value; for threads and sync tests.

    Raises:
        TimeoutError: It has not become true; the message has its last value.
    """
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{_name(condition)} is still {value!r}")
        time.sleep(PAUSE)
    return value


async def stays(condition: Callable[[], object | Awaitable[object]]) -> None:
    """Watch that a condition stays true where no state shows that nothing more will come.

    A slow machine may make it miss a change, but never see one that did not happen. Prefer a later
    event that can only come after the change.
    """
    deadline = time.monotonic() + QUIET
    while time.monotonic() < deadline:
        assert await _value(condition), f"{_name(condition)} is true no longer"
        await asyncio.sleep(PAUSE)


async def forever() -> NoReturn:
    """Do something that takes too long for any test."""
    while True:
        await asyncio.sleep(3600)


async def _value(condition: Callable[[], T | Awaitable[T]]) -> T:
    value = condition()
    return await value if inspect.isawaitable(value) else value


def _name(condition: object) -> str:
    code = getattr(condition, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{getattr(condition, '__qualname__', condition)}{where}"
