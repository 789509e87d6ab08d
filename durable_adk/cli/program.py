"""The program ``durable-adk`` and its commands, each of which is imported when it is called."""

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from durable_adk import __version__

CONTEXT = {"help_option_names": ["-h", "--help"]}


class ListedCommand(NamedTuple):
    """A command in the list of commands."""

    function: str
    """``module:name`` of its function, or of the group of its commands."""
    panel: str
    """The heading under which it is listed."""
    help: str
    """The first sentence of its help."""


_RUN = "Run agents"
_ANSWER = "Answer what agents ask for"
_LOOK = "Look at sessions"
_OPERATE = "Operate"

COMMANDS = {
    "demo": ListedCommand("demo:demo", _RUN, "Watch an agent survive the SIGKILL of its worker."),
    "run": ListedCommand(
        "run:run", _RUN, "Send a message to TARGET's agent and print the events, or chat with it."
    ),
    "dev": ListedCommand(
        "worker:dev",
        _RUN,
        "Keep a Temporal server, a worker for TARGET and a session store running, until Ctrl-C.",
    ),
    "worker": ListedCommand(
        "worker:worker",
        _RUN,
        "Run a worker for TARGETS on an existing Temporal, until Ctrl-C or SIGTERM.",
    ),
    "schedule": ListedCommand(
        "schedule:schedule", _RUN, "Have Temporal start invocations at set times."
    ),
    "pending": ListedCommand(
        "pending:pending",
        _ANSWER,
        "List the calls that wait for an answer, oldest first, and the commands that answer them.",
    ),
    "approve": ListedCommand(
        "answer:approve",
        _ANSWER,
        "Approve a tool call that waits for confirmation, and print the events that follow.",
    ),
    "reject": ListedCommand(
        "answer:reject",
        _ANSWER,
        "Reject a tool call that waits for confirmation, and print the events that follow.",
    ),
    "respond": ListedCommand(
        "answer:respond",
        _ANSWER,
        "Give the result of a long-running tool call, and print the events that follow.",
    ),
    "credential": ListedCommand(
        "answer:credential",
        _ANSWER,
        "Give a tool the credential that it requests, and print the events that follow.",
    ),
    "attach": ListedCommand(
        "run:attach",
        _LOOK,
        "Print all events of an invocation, from the first one until it ends.",
    ),
    "cancel": ListedCommand(
        "answer:cancel",
        _RUN,
        "Cancel an invocation that runs or waits; the events it has committed stay.",
    ),
    "sessions": ListedCommand("sessions:sessions", _LOOK, "List the sessions, the newest last."),
    "show": ListedCommand(
        "sessions:show",
        _LOOK,
        "Print a session or an invocation: events, state, artifacts, failed attempts and tokens.",
    ),
    "attempts": ListedCommand(
        "sessions:attempts",
        _LOOK,
        "List the model calls that failed, were cancelled or were lost, and the tokens they used.",
    ),
    "health": ListedCommand(
        "operations.health:health",
        _OPERATE,
        "Check that session store and Temporal answer, and that a worker polls the task queue.",
    ),
    "doctor": ListedCommand(
        "operations.doctor:doctor",
        _OPERATE,
        "Find inconsistencies between the session store and Temporal; with --fix, repair them.",
    ),
    "erase": ListedCommand(
        "operations.erase:erase",
        _OPERATE,
        "List a user's data; with --yes, delete it from all stores and from Temporal.",
    ),
    "db": ListedCommand(
        "operations.setup:db",
        _OPERATE,
        "Show or upgrade the version of the session store's tables.",
    ),
    "search-attributes": ListedCommand(
        "operations.setup:search_attributes",
        _OPERATE,
        "Register the search attributes that make invocations searchable in Temporal.",
    ),
    "key": ListedCommand(
        "operations.setup:key", _OPERATE, "Make keys that encrypt what Temporal stores."
    ),
    "codec": ListedCommand(
        "operations.setup:codec",
        _OPERATE,
        "Decrypt payloads for Temporal's UI and command line, until Ctrl-C or SIGTERM.",
    ),
}
"""All commands. Listing and completing them imports none of their modules, which import Temporal's
SDK and SQLAlchemy; that would take a second."""


def group(help_text: str) -> typer.Typer:
    """A group of commands."""
    made = typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings=CONTEXT,
    )
    made.callback()(lambda: None)  # without it, a group of one command would be that command
    return made


def load(name: str) -> typer.Typer:
    """Import a command, alone or as a group.

    What is imported stays: looking through it for garbage would take a quarter of the time.
    """
    module, _, function = COMMANDS[name].function.partition(":")
    gc.disable()
    found = getattr(import_module(f"durable_adk.cli.{module}"), function)
    gc.freeze()
    gc.enable()
    if isinstance(found, typer.Typer):
        return found
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, context_settings=CONTEXT)(found)
    return alone


class LazyGroup(TyperGroup):
    """Lists commands by their names and helps, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the called command's entry in the list by the command itself."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and name and get_command(load(name)), rest


app = typer.Typer(
    name="durable-adk",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=CONTEXT,
)


def _list(name: str, row: ListedCommand) -> None:
    @app.command(name, help=row.help, rich_help_panel=row.panel)
    def entry() -> None:
        """Stand for the command in the list; `LazyGroup` calls the command itself."""


for _name, _row in COMMANDS.items():
    _list(_name, _row)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"durable-adk {__version__}")
        raise typer.Exit


@app.callback()
def durable_adk(
    show_version: Annotated[  # handled by its callback
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Durable agents: Google ADK's runtime on Temporal."""


def main() -> None:
    """Run the command line, then end the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals without Unicode
    code: object = 0
    try:
        app(prog_name="durable-adk")
    except SystemExit as ended:
        code = ended.code
    leave(code if isinstance(code, int) else int(code is not None))


def leave(code: int) -> NoReturn:
    """End the process at once.

    The interpreter's own shutdown can abort while a client's long poll is being cancelled. Nothing
    is left to clean up here, so skip it.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader of a pipe has gone
            stream.flush()
    os._exit(code)
