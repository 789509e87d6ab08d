"""Arguments and options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from durable_adk.cli.commands.declaration import loaded

Target = Annotated[
    str,
    typer.Argument(
        help="A folder, file or module that defines `root_agent` or `app`.", show_default=False
    ),
]
Targets = Annotated[
    list[str],
    typer.Argument(
        help="Folders, files or modules that define `root_agent` or `app`.", show_default=False
    ),
]
AnyTarget = Annotated[
    str | None,
    typer.Argument(
        help="The app: its name, or a folder, file or module that defines it. Default: all apps.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One event a line, as ADK's JSON.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Exit once it is accepted; do not print the events.")
]
User = Annotated[str, typer.Option(help="The user's id.")]
Session = Annotated[
    str | None, typer.Option(help="The session's id; created if missing. Default: a new one.")
]
OneUser = Annotated[str | None, typer.Option("--user", help="Only this user.")]
OneSession = Annotated[str | None, typer.Option("--session", help="Only this session.")]
Status = Literal["running", "paused", "completed", "failed", "cancelled", "abandoned"]
"""The values of `durable_adk.sessions.Status`."""
WhenBusy = Literal["enqueue", "reject", "interrupt", "steer"]
"""The values of `durable_adk.wire.messages.WhenBusy`."""


def _from_profile(context: typer.Context, address: str | None) -> str | None:
    """Return the given address, else that of the user's Temporal profile, read only when needed.

    So all commands and the worker use the same Temporal. If a command fell back to the embedded
    server, it might erase a store whose histories are on another server.
    """
    if address or context.resilient_parsing:
        return address
    found: str | None = loaded("commands.address:address_of_profile")()
    return found


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Options that locate the store and Temporal; a command lists those that it has."""

    store: Annotated[
        str | None,
        typer.Option(
            help="Session store: a SQLite file, or an SQLAlchemy URL. "
            "Default: sessions.db in the data folder.",
            show_default=False,
        ),
    ] = None
    task_queue: Annotated[
        str | None, typer.Option(help="The task queue of the app's workers.", show_default=False)
    ] = None
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the embedded server and of all stores. Default: .durable-adk",
            show_default=False,
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            envvar="TEMPORAL_ADDRESS",
            help="host:port of a Temporal server. Default: the address of your Temporal profile, "
            "else the embedded server of the data folder.",
            show_default=False,
            callback=_from_profile,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InvocationOptions:
    """The options of commands that act on an open invocation."""

    target: Annotated[
        str | None,
        typer.Option(
            help="The app: its name, or a folder, file or module that defines it. The latter runs "
            "it in this command unless --address is given; needed if no other worker does.",
            show_default=False,
        ),
    ] = None
    user: OneUser = None
    session: OneSession = None
    detach: Detach = False
    as_json: Json = False
