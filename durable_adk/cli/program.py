"""The program ``durable-adk`` and its commands."""

import sys
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated

import typer

from durable_adk.cli.answer import (
    approve_command,
    credential_command,
    reject_command,
    respond_command,
)
from durable_adk.cli.attempts import attempts_command
from durable_adk.cli.cancel import cancel_command
from durable_adk.cli.codec import codec_command
from durable_adk.cli.db import db
from durable_adk.cli.demo import demo_command
from durable_adk.cli.dev import dev_command
from durable_adk.cli.doctor import doctor_command
from durable_adk.cli.erase import erase_command
from durable_adk.cli.execution import leave
from durable_adk.cli.health import health_command
from durable_adk.cli.key import key_app
from durable_adk.cli.pending import pending_command
from durable_adk.cli.run import attach_command, run_command
from durable_adk.cli.schedule import schedule_app
from durable_adk.cli.search_attributes import search_attributes_command
from durable_adk.cli.worker import worker_command

app = typer.Typer(
    name="durable-adk",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo_command)
app.command("run")(run_command)
app.command("attach")(attach_command)
app.command("pending")(pending_command)
app.command("attempts")(attempts_command)
app.command("approve")(approve_command)
app.command("reject")(reject_command)
app.command("respond")(respond_command)
app.command("credential")(credential_command)
app.command("cancel")(cancel_command)
app.command("doctor")(doctor_command)
app.command("erase")(erase_command)
app.add_typer(db, name="db")
app.command("dev")(dev_command)
app.command("worker")(worker_command)
app.command("health")(health_command)
app.add_typer(schedule_app, name="schedule")
app.command("search-attributes")(search_attributes_command)
app.add_typer(key_app, name="key")
app.command("codec")(codec_command)


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
    show_version: Annotated[  # its callback does the work
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Durable agents: Google ADK's runtime on Temporal."""


def main() -> None:
    """Run the command line; the process ends here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that know no Unicode
    code: object = 0
    try:
        app(prog_name="durable-adk")
    except SystemExit as ended:
        code = ended.code
    leave(code if isinstance(code, int) else int(code is not None))
