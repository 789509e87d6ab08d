"""How every command runs: signals, errors and exit codes."""

import asyncio
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any, NoReturn

import typer

from durable_adk.errors import DurableAdkError
from durable_adk.log import printable
from durable_adk.telemetry.environment import is_asked_for

_PATIENCE = 20.0  # seconds that cleaning up may take after a signal; our children end with us

_SETUP = "durable_adk.telemetry.setup"

FAILED = 1
"""Exit code of a command that could not do what it was asked to."""


class StoppedBySignal(Exception):  # noqa: N818  # being stopped is no error
    """The user or the system asked us to end, and all that we started has ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def execute(work: Coroutine[Any, Any, None], *, debug: bool, stopped: int | None = None) -> None:
    """Run a command to its end, turning what happened into an exit code.

    Args:
        work: The command; it is cancelled at SIGINT and SIGTERM, and cleans up then.
        debug: Show tracebacks.
        stopped: Exit code after a signal; None: 128 + its number, as shells have it.

    Raises:
        typer.Exit: With the code, unless that is 0.
    """
    try:
        with _telemetry():
            asyncio.run(_until_signal(work))
    except StoppedBySignal as signalled:
        code = signalled.exit_code if stopped is None else stopped
    except Exception as error:  # noqa: BLE001  # the last frame there is
        report(error, debug=debug)
        code = FAILED
    else:
        code = 0
    raise typer.Exit(code)


def _telemetry() -> AbstractContextManager[None]:
    """Export what the environment asks for; the SDK is imported only then."""
    if not is_asked_for():
        return nullcontext()
    exporting: AbstractContextManager[None] = import_module(_SETUP).exporting()
    return exporting


def report(error: BaseException, *, debug: bool) -> None:
    """Say in one line on standard error what went wrong."""
    error = _first(error)
    if debug:
        traceback.print_exception(error)
    name = error.error_type if isinstance(error, DurableAdkError) else type(error).__name__
    hint = "" if debug or isinstance(error, DurableAdkError) else " (--debug shows the traceback)"
    line = f"Error: {name}: {printable(' '.join(str(error).split()))}{hint}"
    typer.echo(line, err=True)


def _first(error: BaseException) -> BaseException:
    """The error that made a group of tasks end."""
    if isinstance(error, BaseExceptionGroup):
        causes: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: isinstance cannot say of what
        return _first(causes[0])
    return error


def leave(code: int) -> NoReturn:
    """End the process at once.

    A client whose long poll was cancelled can abort the interpreter's own way out (reliability
    1g): nothing of ours is left to clean up here, so it is not taken.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader of a pipe has gone
            stream.flush()
    os._exit(code)


async def until_cancelled() -> None:
    """Wait; from then on there is only so much time to clean up, whatever user code does."""
    try:
        await asyncio.Event().wait()
    finally:
        asyncio.get_running_loop().call_later(_PATIENCE, leave, FAILED)


@contextmanager
def ending_a_frozen_process(seconds: float) -> Generator[None]:
    """End the process, with the places of its threads on standard error, if its loop stands still.

    User code may keep the interpreter to itself, as a regular expression does: then no Python code
    of ours can find that out. The timer of `faulthandler` needs none.
    """
    timer = asyncio.ensure_future(_begin_again(seconds))
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


async def _begin_again(seconds: float) -> None:
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True)
        await asyncio.sleep(min(1.0, seconds / 4))


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    received: list[int] = []
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if received:
            leave(128 + number)  # asked twice; what we started notices that we are gone
        received.append(number)
        task.cancel()
        loop.call_later(_PATIENCE, leave, 128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    with suppress(asyncio.CancelledError):
        await task
    if received:
        raise StoppedBySignal(received[0])
