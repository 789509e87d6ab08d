"""The commands that show, list and copy sessions."""

from typing import Annotated

import typer

from durable_adk.cli.commands.declaration import command
from durable_adk.cli.commands.options import (
    AnyTarget,
    ConnectionOptions,
    OneSession,
    OneUser,
    Status,
)

Number = Annotated[int, typer.Option(min=1, help="At most so many, the newest ones.")]
WithStatus = Annotated[
    Status | None, typer.Option(help="Only sessions whose last invocation has this status.")
]
SessionLines = Annotated[bool, typer.Option("--json", help="One session a line, as JSON.")]
AttemptLines = Annotated[bool, typer.Option("--json", help="One attempt a line, as JSON.")]
OneInvocation = Annotated[
    str | None, typer.Option(help="Only this invocation.", show_default=False)
]
Name = Annotated[
    str,
    typer.Argument(
        help="The id of a session or an invocation, or a unique beginning of it.",
        metavar="SESSION|INVOCATION",
        show_default=False,
    ),
]
OneTarget = Annotated[
    str | None,
    typer.Option(
        "--target", help="Only this app: its name, or a folder, file or module that defines it."
    ),
]
Whole = Annotated[
    bool, typer.Option("--json", help="As one JSON object; with --follow, one event a line.")
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Then print new events until it ends, or Ctrl-C."),
]
Database = Annotated[
    str,
    typer.Argument(
        help="The database: a SQLite file, sqlite:///FILE or postgresql://USER@HOST/NAME.",
        metavar="URL",
        show_default=False,
    ),
]
Counts = Annotated[bool, typer.Option("--json", help="The counts and problems, as JSON.")]


@command("sessions:sessions", "store", "data_dir")
def sessions(
    connection: ConnectionOptions,
    target: AnyTarget = None,
    *,
    user: OneUser = None,
    status: WithStatus = None,
    limit: Number = 20,
    lines: SessionLines = False,
) -> None:
    """List the sessions, the newest last.

    Reads the session store only. A session has the status of its last invocation; WAITING is the
    number of calls that wait for an answer.

    [bold]Example[/bold]

      durable-adk sessions --user alice
    """


@command("sessions:show", "store", "data_dir")
def show(
    connection: ConnectionOptions,
    name: Name,
    *,
    target: OneTarget = None,
    user: OneUser = None,
    session: OneSession = None,
    as_json: Whole = False,
    follow: Follow = False,
) -> None:
    """Print a session or an invocation: events, state, artifacts, failed attempts and tokens.

    Reads the session store only: neither Temporal nor the agent is needed.

    [bold]Examples[/bold]

      durable-adk show trips

      durable-adk show e-6f1c --follow
    """


@command("sessions:attempts", "store", "data_dir")
def attempts(
    connection: ConnectionOptions,
    target: AnyTarget = None,
    *,
    user: OneUser = None,
    session: OneSession = None,
    invocation: OneInvocation = None,
    lines: AttemptLines = False,
) -> None:
    """List the attempts at model and tool calls that failed, were cancelled or were lost.

    Reads the session store only. Shows workers, errors and the tokens of models. Successful
    attempts are not listed: their tokens are on their events.

    [bold]Example[/bold]

      durable-adk attempts --user alice
    """


@command("operations.session_copies:import_sessions", "store", "data_dir")
def import_sessions(
    connection: ConnectionOptions, url: Database, *, as_json: Counts = False
) -> None:
    """Copy the sessions of a google-adk database into the session store.

    Takes what google-adk's DatabaseSessionService, in tables of 2.x, and SqliteSessionService
    wrote, and only reads it; google-adk need not be installed. Its `adk migrate session` converts
    tables that 1.x has made. Run it again after a stop: nothing is copied
    twice, and sessions that went on in google-adk are continued. A session that the store has with
    other events is left alone, and a row that cannot be read is left out. Both are named, and the
    exit code is then 1.

    [bold]Example[/bold]

      durable-adk sessions import sqlite:///my_agent/sessions.db
    """


@command("operations.session_copies:export_sessions", "store", "data_dir")
def export_sessions(
    connection: ConnectionOptions, url: Database, *, as_json: Counts = False
) -> None:
    """Copy the sessions of the session store into a database that google-adk 2 reads.

    The database is made if it is missing. Run it again after a stop: nothing is copied twice, and
    sessions that went on are continued. A session that the database has with other events is left
    alone and named, and the exit code is then 1.

    [bold]Example[/bold]

      durable-adk sessions export sqlite:///sessions.db
    """
