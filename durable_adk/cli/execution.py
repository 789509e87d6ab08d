"""Execution of every command: its logging, signals, errors and exit code."""

import asyncio
import faulthandler
import select
import signal
import traceback
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any, get_type_hints

import typer

from durable_adk.cli.commands.exit import leave
from durable_adk.errors import DurableAdkError, frames_of_error
from durable_adk.log import configure, printable
from durable_adk.telemetry.environment import is_asked_for
from durable_adk.telemetry.logs import forward_core_logs

FAILED = 1
"""Exit code of a command that failed."""
_CLEANUP_TIMEOUT = 20.0
"""Seconds for cleanup after a signal; child processes end with this one."""
_STDOUT = 1
"""File descriptor of standard output."""
_TELEMETRY_SETUP = "durable_adk.telemetry.setup"

Work = Callable[..., Coroutine[Any, Any, int | None]]
"""The function that performs a command; returns the exit code, None for 0."""


class StoppedBySignal(Exception):  # noqa: N818  # being stopped is no error
    """SIGINT or SIGTERM stopped the command, and everything it started has ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def execute(
    work: Work,
    options: Mapping[str, Mapping[str, Any]],
    values: Mapping[str, Any],
    *,
    debug: bool,
    log_level: str,
    stopped: int | None = None,
) -> None:
    """Run a command to its end and exit with its code.

    Args:
        work: The command; SIGINT and SIGTERM cancel it, and it cleans up.
        options: Field values of its parameters that are dataclasses.
        values: Its other arguments.
        debug: Whether to show tracebacks.
        log_level: The log level unless the environment sets one.
        stopped: The exit code after a signal; None: 128 + its number, as in shells.

    Raises:
        typer.Exit: With the exit code.
    """

    async def called() -> int | None:
        hints = get_type_hints(work)
        return await work(
            **{name: hints[name](**fields) for name, fields in options.items()}, **values
        )

    configure(log_level)
    forward_core_logs()
    try:
        with _telemetry():
            code = asyncio.run(_until_signal(called())) or 0
    except StoppedBySignal as signalled:
        code = signalled.exit_code if stopped is None else stopped
    except Exception as error:  # noqa: BLE001  # the outermost frame
        if not (isinstance(_first(error), BrokenPipeError) and _stdout_is_closed()):
            report(error, debug=debug)
        code = FAILED
    raise typer.Exit(code)


def _telemetry() -> AbstractContextManager[None]:
    """Export telemetry if the environment configures it; only then import the SDK."""
    if not is_asked_for():
        return nullcontext()
    exporting: AbstractContextManager[None] = import_module(_TELEMETRY_SETUP).exporting()
    return exporting


def report(error: BaseException, *, debug: bool) -> None:
    """Write an error to standard error, in one line, and its location in user code."""
    error = _first(error)
    if debug:
        traceback.print_exception(error)
    name = error.error_type if isinstance(error, DurableAdkError) else type(error).__name__
    frames = frames_of_error(error)
    known = debug or frames or isinstance(error, DurableAdkError)
    hint = "" if known else " (--debug shows the traceback)"
    line = f"Error: {name}: {printable(' '.join(str(error).split()))}{hint}"
    typer.echo(line, err=True)
    for frame in frames:
        typer.echo(f"  {printable(frame)}", err=True)


def _stdout_is_closed() -> bool:
    """Return whether the reader of standard output has exited, e.g. after ``| head``.

    Otherwise a broken pipe is that of a connection.
    """
    poll = select.poll()
    poll.register(_STDOUT, 0)  # reports errors only
    return bool(poll.poll(0))


def note(text: str) -> None:
    """Write a line for the user to standard error; standard output contains the events."""
    typer.echo(text, err=True)


def _first(error: BaseException) -> BaseException:
    """Return the error that ended a group of tasks."""
    if isinstance(error, BaseExceptionGroup):
        causes: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: isinstance cannot narrow the type argument
        return _first(causes[0])
    return error


async def until_cancelled() -> None:
    """Wait for cancellation; then limit the time for cleanup, whatever user code does."""
    try:
        await asyncio.Event().wait()
    finally:
        asyncio.get_running_loop().call_later(_CLEANUP_TIMEOUT, leave, FAILED)


@contextmanager
def ending_a_frozen_process(seconds: float) -> Generator[None]:
    """Dump all stacks to standard error and end the process if its event loop blocks for this long.

    User code may hold the GIL, e.g. in a regular expression. Then no Python code can detect that;
    the timer of `faulthandler` can.
    """
    timer = asyncio.ensure_future(_restart_timer(seconds))
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


async def _restart_timer(seconds: float) -> None:
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True)
        await asyncio.sleep(min(1.0, seconds / 4))


async def _until_signal(work: Coroutine[Any, Any, int | None]) -> int | None:
    task = asyncio.ensure_future(work)
    received: list[int] = []
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if received:
            leave(128 + number)  # the second signal; child processes detect the exit
        received.append(number)
        task.cancel()
        loop.call_later(_CLEANUP_TIMEOUT, leave, 128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    code = None
    with suppress(asyncio.CancelledError):
        code = await task
    if received:
        raise StoppedBySignal(received[0])
    return code
