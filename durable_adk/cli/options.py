"""The arguments and options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
Address = Annotated[
    str | None,
    typer.Option(
        envvar="TEMPORAL_ADDRESS", help="host:port of your own Temporal.", show_default=False
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
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the embedded server and store keep their files. Default: .durable-adk",
        show_default=False,
    ),
]
User = Annotated[str, typer.Option(help="The user's id.")]
Session = Annotated[
    str | None, typer.Option(help="The session's id; made if missing. Default: a new one.")
]
Json = Annotated[bool, typer.Option("--json", help="One event a line, as ADK's JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
