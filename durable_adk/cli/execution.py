"""How every command runs: its options, its logging, signals, errors and exit code."""

import asyncio
import dataclasses
import faulthandler
import inspect
import signal
import traceback
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer

from durable_adk.cli.connection import CliConnection
from durable_adk.cli.program import leave
from durable_adk.errors import DurableAdkError, places_of
from durable_adk.log import configure, printable
from durable_adk.telemetry.environment import is_asked_for

FAILED = 1
"""Exit code of a command that failed."""
_CLEANUP_TIMEOUT = 20.0
"""Seconds for cleaning up after a signal; child processes end with this one."""
_TELEMETRY_SETUP = "durable_adk.telemetry.setup"

Work = Callable[..., Coroutine[Any, Any, int | None]]
"""The body of a command; returns its exit code, None for 0."""
_Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def command(
    *connection: str, log_level: str = "warning", stopped: int | None = None
) -> Callable[[Work], Callable[..., None]]:
    """Make an async function a function for `typer.Typer.command`.

    A parameter whose type is a dataclass stands for the options that its fields declare, so
    several commands can share them. Every command gets ``--debug``.

    Args:
        *connection: Which options of its connection the command has.
        log_level: The level of the logs unless the environment sets one.
        stopped: The exit code after SIGINT or SIGTERM; None: 128 + the signal's number.
    """

    def decorate(work: Work) -> Callable[..., None]:
        hints = get_type_hints(work, include_extras=True)
        groups = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}

        def run(*, debug: bool, **values: Any) -> None:
            async def called() -> int | None:
                made = {name: _take(group, values) for name, group in groups.items()}
                return await work(**made, **values)

            configure(log_level)
            execute(called(), debug=debug, stopped=stopped)

        parameters = [*_parameters(work, hints, connection), _parameter("debug", _Debug, False)]
        parameters.sort(key=lambda one: one.kind)
        run.__name__, run.__doc__ = work.__name__, unwrapped(work.__doc__ or "")
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        return run

    return decorate


def unwrapped(docstring: str) -> str:
    """A docstring whose paragraphs are one line each, which the terminal wraps; examples stay."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(
        text if text.startswith(" ") else " ".join(text.splitlines()) for text in paragraphs
    )


def _parameters(
    work: Work, hints: dict[str, Any], connection: tuple[str, ...]
) -> Iterator[inspect.Parameter]:
    """The parameters of a command, with those of its dataclasses in their place."""
    for name, parameter in inspect.signature(work).parameters.items():
        if not dataclasses.is_dataclass(hints[name]):
            yield parameter.replace(annotation=hints[name])
    groups = [hints[name] for name in inspect.signature(work).parameters]
    for group in sorted(groups, key=_connects):  # the connection's last
        for field in _options(group):
            if not _connects(group) or field.name in connection:
                annotation = get_type_hints(group, include_extras=True)[field.name]
                yield _parameter(field.name, annotation, field.default)


def _connects(group: Any) -> bool:
    return isinstance(group, type) and issubclass(group, CliConnection)


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _options(group: Any) -> list["dataclasses.Field[Any]"]:
    """The fields of a dataclass that are options; [] for anything else."""
    fields = dataclasses.fields(group) if dataclasses.is_dataclass(group) else ()
    return [field for field in fields if field.default is not dataclasses.MISSING]


def _take(group: Any, values: dict[str, Any]) -> object:
    """An instance of a dataclass, from the options that belong to it."""
    names = [field.name for field in _options(group) if field.name in values]
    return group(**{name: values.pop(name) for name in names})


class StoppedBySignal(Exception):  # noqa: N818  # being stopped is no error
    """SIGINT or SIGTERM stopped the command, and everything it started has ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def execute(
    work: Coroutine[Any, Any, int | None], *, debug: bool, stopped: int | None = None
) -> None:
    """Run a command to its end and exit with its code.

    Args:
        work: The command; SIGINT and SIGTERM cancel it, and it cleans up.
        debug: Show tracebacks.
        stopped: The exit code after a signal; None: 128 + its number, as shells have it.

    Raises:
        typer.Exit: With the exit code.
    """
    try:
        with _telemetry():
            code = asyncio.run(_until_signal(work)) or 0
    except StoppedBySignal as signalled:
        code = signalled.exit_code if stopped is None else stopped
    except Exception as error:  # noqa: BLE001  # the outermost frame
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
    """Write an error to standard error, in one line, and where in user code it was raised."""
    error = _first(error)
    if debug:
        traceback.print_exception(error)
    name = error.error_type if isinstance(error, DurableAdkError) else type(error).__name__
    places = places_of(error)
    known = debug or places or isinstance(error, DurableAdkError)
    hint = "" if known else " (--debug shows the traceback)"
    line = f"Error: {name}: {printable(' '.join(str(error).split()))}{hint}"
    typer.echo(line, err=True)
    for place in places:
        typer.echo(f"  {printable(place)}", err=True)


def note(text: str) -> None:
    """Write a line for the user to standard error; standard output holds the events."""
    typer.echo(text, err=True)


def _first(error: BaseException) -> BaseException:
    """The error that ended a group of tasks."""
    if isinstance(error, BaseExceptionGroup):
        causes: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: isinstance cannot narrow the type argument
        return _first(causes[0])
    return error


async def until_cancelled() -> None:
    """Wait for cancellation; then limit the time for cleaning up, whatever user code does."""
    try:
        await asyncio.Event().wait()
    finally:
        asyncio.get_running_loop().call_later(_CLEANUP_TIMEOUT, leave, FAILED)


@contextmanager
def ending_a_frozen_process(seconds: float) -> Generator[None]:
    """Dump all stacks to standard error and end the process if its event loop stops for so long.

    User code may hold the GIL, as a regular expression does. Python code of ours cannot notice that
    then; the timer of `faulthandler` can.
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
            leave(128 + number)  # the second signal; child processes notice that we are gone
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
