"""The program ``durable-adk``: its commands, and the end of its process."""

import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from durable_adk import __version__
from durable_adk.cli.commands import agents, answers, operations, server, sessions
from durable_adk.cli.commands.declaration import CONTEXT
from durable_adk.cli.commands.exit import leave

COMMANDS: dict[str, dict[str, Any]] = {
    "Run agents": {
        "demo": agents.demo,
        "check": agents.check,
        "graph": agents.graph,
        "run": agents.run,
        "dev": agents.dev,
        "web": server.web,
        "worker": agents.worker,
        "serve": server.serve,
        "schedule": agents.schedule,
        "cancel": agents.cancel,
    },
    "Answer what agents ask for": {
        "pending": answers.pending,
        "approve": answers.approve,
        "reject": answers.reject,
        "respond": answers.respond,
        "credential": answers.credential,
    },
    "Look at sessions": {
        "attach": agents.attach,
        "sessions": sessions.sessions,
        "sessions import": sessions.import_sessions,
        "sessions export": sessions.export_sessions,
        "show": sessions.show,
        "attempts": sessions.attempts,
    },
    "Operate": {
        "health": operations.health,
        "doctor": operations.doctor,
        "erase": operations.erase,
        "db": operations.db,
        "search-attributes": operations.search_attributes,
        "key": operations.key,
        "codec": operations.codec,
    },
}
"""All commands and groups of commands, by the headings of the help."""


class _Program(TyperGroup):
    """Finds commands by name; some names have two words."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; ``sessions import`` is a different command from ``sessions``."""
        name = " ".join(args[:2])
        return super().resolve_command(ctx, [name, *args[2:]] if name in self.commands else args)


app = typer.Typer(
    name="durable-adk",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=CONTEXT,
)
for _heading, _commands in COMMANDS.items():
    for _name, _declared in _commands.items():
        if isinstance(_declared, typer.Typer):
            app.add_typer(_declared, name=_name, rich_help_panel=_heading)
        else:
            app.command(_name, rich_help_panel=_heading, context_settings=CONTEXT)(_declared)


def declared() -> Iterator[Any]:
    """Yield all commands, including those of groups."""
    groups = [app, *(one.typer_instance for one in app.registered_groups)]
    return (command.callback for one in groups if one for command in one.registered_commands)


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
