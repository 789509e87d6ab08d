"""The program ``durable-adk`` and its commands."""

import sys
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated

import typer

from durable_adk.cli.answer import approve, credential, reject, respond
from durable_adk.cli.attempts import attempts
from durable_adk.cli.demo import demo
from durable_adk.cli.execution import leave
from durable_adk.cli.operations import doctor, erase, health
from durable_adk.cli.pending import pending
from durable_adk.cli.run import attach, cancel, run
from durable_adk.cli.schedule import schedule
from durable_adk.cli.setup import HELP, codec, db, key, search_attributes
from durable_adk.cli.worker import dev, worker

app = typer.Typer(
    name="durable-adk",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings=HELP,
)
app.command("demo")(demo)
app.command("run")(run)
app.command("attach")(attach)
app.command("pending")(pending)
app.command("attempts")(attempts)
app.command("approve")(approve)
app.command("reject")(reject)
app.command("respond")(respond)
app.command("credential")(credential)
app.command("cancel")(cancel)
app.command("doctor")(doctor)
app.command("erase")(erase)
app.add_typer(db, name="db")
app.command("dev")(dev)
app.command("worker")(worker)
app.command("health")(health)
app.add_typer(schedule, name="schedule")
app.command("search-attributes")(search_attributes)
app.add_typer(key, name="key")
app.command("codec")(codec)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            number = version("durable-adk")
        except PackageNotFoundError:  # run from a checkout
            number = "(not installed)"
        typer.echo(f"durable-adk {number}")
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
