"""``durable-adk key``: the keys that payloads are encrypted with."""

from typing import Annotated

import typer

from durable_adk.cli.execution import execute
from durable_adk.cli.options import Debug
from durable_adk.encryption import Key

key_app = typer.Typer(help="Make keys that encrypt what Temporal keeps.", no_args_is_help=True)

KeyId = Annotated[
    str | None,
    typer.Option("--id", help="What payloads call it. Default: the day.", show_default=False),
]


@key_app.callback()
def key_command() -> None:
    """Make keys that encrypt what Temporal keeps."""


@key_app.command("new")
def new_command(*, key_id: KeyId = None, debug: Debug = False) -> None:
    """Print a new key, as a line of a key file.

    DURABLE_ADK_ENCRYPTION_KEYS names the file. Its first line encrypts, all decrypt; so a new key
    goes first, and an old one stays as long as Temporal has what it has encrypted.

    [bold]Example[/bold]

      (umask 077; durable-adk key new > keys)
    """

    async def work() -> None:
        typer.echo(Key.new(key_id).line())

    execute(work(), debug=debug)
