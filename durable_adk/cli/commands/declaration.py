"""Declares a command: its options, and the function that is imported when it is called."""

import dataclasses
import gc
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer

CONTEXT = {"help_option_names": ["-h", "--help"]}
_EXECUTION = "durable_adk.cli.execution"
_Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def command(
    work: str, *connection: str, log_level: str = "warning", stopped: int | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn the declaration of a command into a function for `typer.Typer.command`.

    A parameter whose type is a dataclass is replaced by the options that its fields declare, so
    several commands can share them. Every command gets ``--debug``.

    Args:
        work: ``module:name``, below `durable_adk.cli`, of the async function that performs the
            command. It has the declaration's parameters, and returns the exit code; None means 0.
        *connection: Names of the connection's options that the command has.
        log_level: The log level unless the environment sets one.
        stopped: The exit code after SIGINT or SIGTERM; None: 128 + the signal's number.
    """

    def decorate(declared: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(declared, include_extras=True)
        groups = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}

        def run(*, debug: bool, **values: Any) -> None:
            options = {name: _taken(group, values) for name, group in groups.items()}
            # Imported objects are never freed; garbage collection would take a quarter of the time.
            gc.disable()
            function = loaded(work)
            execute = import_module(_EXECUTION).execute
            gc.freeze()
            gc.enable()
            execute(
                function,
                options,
                values,
                debug=debug,
                log_level=log_level,
                stopped=stopped,
            )

        parameters = [*_parameters(declared, hints, connection), _parameter("debug", _Debug, False)]
        parameters.sort(key=lambda one: one.kind)
        run.__name__, run.__doc__ = declared.__name__, unwrapped(declared.__doc__ or "")
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        run.__dict__["work"] = work
        return run

    return decorate


def loaded(work: str) -> Callable[..., Any]:
    """Import the function that performs a command."""
    module, _, name = work.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"durable_adk.cli.{module}"), name)
    return function


def group(help_text: str) -> typer.Typer:
    """Return an empty group of commands."""
    made = typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings=CONTEXT,
    )
    made.callback()(lambda: None)  # else a group of one command would become that command
    return made


def unwrapped(docstring: str) -> str:
    """Join the lines of each paragraph, which the terminal wraps; examples stay unchanged."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(
        text if text.startswith(" ") else " ".join(text.splitlines()) for text in paragraphs
    )


def _parameters(
    declared: Callable[..., None], hints: dict[str, Any], connection: tuple[str, ...]
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command; a dataclass is replaced by its fields."""
    names = list(inspect.signature(declared).parameters)
    for name, parameter in inspect.signature(declared).parameters.items():
        if not dataclasses.is_dataclass(hints[name]):
            yield parameter.replace(annotation=hints[name])
    for name in sorted(names, key="connection".__eq__):  # the connection's options last
        for field in _options(hints[name]):
            if name != "connection" or field.name in connection:
                annotation = get_type_hints(hints[name], include_extras=True)[field.name]
                yield _parameter(field.name, annotation, field.default)


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _options(group: Any) -> list["dataclasses.Field[Any]"]:
    """Return the fields of a dataclass; [] for anything else."""
    return list(dataclasses.fields(group)) if dataclasses.is_dataclass(group) else []


def _taken(group: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the options that belong to a dataclass."""
    return {one.name: values.pop(one.name) for one in _options(group) if one.name in values}
