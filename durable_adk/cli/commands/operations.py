"""The commands of operators."""

from datetime import datetime
from typing import Annotated

import typer

from durable_adk.cli.commands.declaration import command, group
from durable_adk.cli.commands.options import ConnectionOptions, OneSession, OneUser

db = group(
    "Show or upgrade the version of the session store's tables.\n\n"
    "Also those of other databases that the settings name for memory or credentials."
)
key = group("Make keys that encrypt what Temporal stores.")

Here = Annotated[
    bool, typer.Option("--here", help="Only count workers of this machine or container.")
]
Fix = Annotated[bool, typer.Option("--fix", help="Repair what can be repaired, after asking.")]
FixYes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Findings = Annotated[bool, typer.Option("--json", help="One finding a line, as JSON.")]
OneApp = Annotated[str | None, typer.Option("--app", help="Only this app.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
        help="Do not read the operation logs of sessions that have not changed since, in local "
        "time. All other checks are made.",
        show_default=False,
    ),
]
Code = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="A folder, file or module that defines an app: the histories of custom agents cannot "
        "be read without their code.",
        show_default=False,
    ),
]
Lost = Annotated[
    bool | None,
    typer.Option(
        "--lost/--deleted",
        help="Sessions that only Temporal knows were lost with a backup, and are to be restored; "
        "or were deleted, and their workflows are to be ended.",
        show_default=False,
    ),
]
EraseApp = Annotated[
    str | None,
    typer.Option("--app", help="Only this app. Default: all with sessions.", show_default=False),
]
EraseUser = Annotated[str, typer.Option("--user", help="The user's id.", show_default=False)]
EraseYes = Annotated[
    bool, typer.Option("--yes", "-y", help="Delete the data. Default: only list it.")
]
KeyId = Annotated[
    str | None,
    typer.Option("--id", help="The key's name in payloads. Default: the day.", show_default=False),
]
Impersonal = Annotated[
    bool, typer.Option("--impersonal", help="Without the ids of user and session.")
]
Origin = Annotated[
    list[str] | None,
    typer.Option(
        help="The address of Temporal's UI, such as http://localhost:8233; repeatable. Default: "
        "no web page may ask.",
        show_default=False,
    ),
]
Host = Annotated[str, typer.Option(help="The address to listen at.")]
Port = Annotated[int, typer.Option(help="0: any free port.", min=0, max=65535)]
HostName = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        help="Another host name of the server, such as that of a proxy in front of it; repeatable.",
        show_default=False,
    ),
]
AllowRemote = Annotated[
    bool,
    typer.Option(
        "--allow-remote",
        help="Accept a --host that other machines reach. The server has no TLS: put a proxy in "
        "front.",
    ),
]


@command(
    "operations.health:health",
    *("address", "store", "task_queue", "data_dir"),
    log_level="error",
)
def health(connection: ConnectionOptions, *, here: Here = False) -> None:
    """Check that session store and Temporal answer, and that a worker polls the task queue.

    In the folder of a running `durable-adk dev` they are that command's. Exits with 1 if a check
    fails. It is meant for the probes of containers, and for people who have just set something up.
    Temporal remembers a killed worker for some minutes; with --here the worker must be alive, and
    not be blocked by user code.

    [bold]Example[/bold]

      durable-adk health --here
    """


@command("operations.doctor:doctor", "address", "store", "data_dir")
def doctor(
    connection: ConnectionOptions,
    *,
    app: OneApp = None,
    target: Code = None,
    user: OneUser = None,
    session: OneSession = None,
    since: Since = None,
    fix: Fix = False,
    yes: FixYes = False,
    lost: Lost = None,
    lines: Findings = False,
) -> None:
    """Find inconsistencies between the session store and Temporal; with --fix, repair them.

    Without --fix nothing is changed. Exits with 1 if there are findings, or if some remain. Without
    --app, an open invocation of an app that the store lacks is a finding.

    [bold]Example[/bold]

      durable-adk doctor --fix
    """


@command("operations.erase:erase", "address", "store", "data_dir")
def erase(
    connection: ConnectionOptions, *, user: EraseUser, app: EraseApp = None, yes: EraseYes = False
) -> None:
    """List a user's data; with --yes, delete it from all stores and from Temporal.

    Open invocations are ended. After an error, run it again. Name the app if it is not among those
    that are listed. At the end it lists what it cannot reach.

    [bold]Example[/bold]

      durable-adk erase --user anna --yes
    """


@db.command("upgrade")
@command("operations.setup:db_upgrade", "store", "data_dir")
def db_upgrade(connection: ConnectionOptions) -> None:
    """Create the tables, or upgrade them to the version of this package.

    Run it before workers of a new version start; workers of the previous version continue to work.
    If two upgrades run at once, one waits for the other.

    [bold]Example[/bold]

      durable-adk db upgrade --store postgresql://adk@db.internal/adk
    """


@db.command("status")
@command("operations.setup:db_status", "store", "data_dir")
def db_status(connection: ConnectionOptions) -> None:
    """Show the version of the tables; nothing is changed.

    Exits with 1 if it is not the version of this package.

    [bold]Example[/bold]

      durable-adk db status --store postgresql://adk@db.internal/adk
    """


@key.command("new")
@command("operations.setup:key_new")
def key_new(*, key_id: KeyId = None) -> None:
    """Print a new key, as a line of a key file.

    DURABLE_ADK_ENCRYPTION_KEYS names the file. Its first key encrypts, all keys decrypt. So put a
    new key first, and keep an old one for as long as Temporal stores what it has encrypted.

    [bold]Example[/bold]

      (umask 077; durable-adk key new > keys)
    """


@command("operations.setup:search_attributes", "address", "data_dir")
def search_attributes(connection: ConnectionOptions, *, impersonal: Impersonal = False) -> None:
    """Register the search attributes that make invocations searchable in Temporal.

    Clients set the attributes that the namespace has, so nothing else needs to be done. If you may
    not change the namespace, it prints the commands for an administrator.

    [bold]Example[/bold]

      durable-adk search-attributes
      temporal workflow list --query "DurableAdkStatus = 'waiting' AND ExecutionStatus = 'Running'"
    """


@command("operations.setup:codec", "data_dir", log_level="info", stopped=0)
def codec(
    connection: ConnectionOptions,
    *,
    origin: Origin = None,
    host: Host = "127.0.0.1",
    port: Port = 8081,
    name: HostName = None,
    allow_remote: AllowRemote = False,
) -> None:
    """Decrypt payloads for Temporal's UI and command line, until Ctrl-C or SIGTERM.

    This is a Temporal "codec server", for decoding only. It needs the keys of the workers
    (DURABLE_ADK_ENCRYPTION_KEYS). Anyone who has its token can read all that the keys decrypt. The
    token is DURABLE_ADK_CODEC_TOKEN; without it, a new one is made and shown.

    [bold]Example[/bold]

      durable-adk codec --origin http://localhost:8233
    """
