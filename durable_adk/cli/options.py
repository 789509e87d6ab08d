"""The arguments and options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

from durable_adk.client.connect import configured_address
from durable_adk.errors import InvalidRequestError


def _found(address: str | None) -> str | None:
    """The one given, or else that of the user's Temporal profile.

    So all commands, and the worker, mean the same Temporal. One that took the embedded server
    instead would erase a store whose histories are elsewhere.
    """
    try:
        return address or configured_address()
    except InvalidRequestError as error:
        raise typer.BadParameter(error.message) from error


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
        help="The app: its name, or what defines it. Default: all apps.", show_default=False
    ),
]
Serve = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The app: its name, or what defines it, which then runs here unless --address is "
        "given. Needed if nothing else runs it.",
        show_default=False,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        envvar="TEMPORAL_ADDRESS",
        help="host:port of your own Temporal. Default: what your Temporal profile says, or else an "
        "embedded server.",
        show_default=False,
        callback=_found,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        help="Session store: a SQLite file, or its SQLAlchemy URL. "
        "Default: sessions.db in the data folder.",
        show_default=False,
    ),
]
TaskQueue = Annotated[
    str | None, typer.Option(help="Where the app's workers listen.", show_default=False)
]
BuildId = Annotated[
    str | None,
    typer.Option(
        envvar="DURABLE_ADK_BUILD_ID",
        help="Worker Versioning: the build that this worker is. Invocations end on the build they "
        "began on.",
        show_default=False,
    ),
]
AutoUpgrade = Annotated[
    bool,
    typer.Option(
        "--auto-upgrade", help="With --build-id: open invocations move to the current build."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the embedded server and all stores keep their files. Default: .durable-adk",
        show_default=False,
    ),
]
User = Annotated[str, typer.Option(help="The user's id.")]
Session = Annotated[
    str | None, typer.Option(help="The session's id; made if missing. Default: a new one.")
]
AnyUser = Annotated[str | None, typer.Option("--user", help="Only of this user.")]
AnySession = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Do not follow what comes of it, leave when it is taken.")
]
Json = Annotated[bool, typer.Option("--json", help="One event a line, as ADK's JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
