"""``durable-adk erase``: delete a user's data."""

from typing import Annotated

import typer

from durable_adk.cli.execution import command
from durable_adk.cli.server import ServerConnection
from durable_adk.log import printable
from durable_adk.ops.erasure import Erasure, Holdings, erase as erase_user, survey
from durable_adk.ops.erasure.erasure import UNREACHED

EraseApp = Annotated[
    str | None,
    typer.Option("--app", help="Only this app. Default: all with sessions.", show_default=False),
]
EraseUser = Annotated[str, typer.Option("--user", help="The user's id.", show_default=False)]
EraseYes = Annotated[
    bool, typer.Option("--yes", "-y", help="Delete the data. Default: only list it.")
]


@command("address", "store", "data_dir")
async def erase(
    connection: ServerConnection, *, user: EraseUser, app: EraseApp = None, yes: EraseYes = False
) -> None:
    """List a user's data; with --yes, delete it from all stores and from Temporal.

    Open invocations are ended. After an error, run it again. Name the app if it is not among those
    that are listed. At the end it lists what it cannot reach.

    [bold]Example[/bold]

      durable-adk erase --user anna --yes
    """
    async with (
        connection.sessions(existing=True) as sessions,
        connection.stores() as stores,
        connection.temporal() as client,
    ):
        names = [app] if app else await sessions.list_apps()
        if not names:
            typer.echo("No app has sessions in this store; name one with --app.")
        for name in names:
            erasure = Erasure(app=name, user=user, client=client, **stores.services())
            found = await (erase_user(erasure) if yes else survey(erasure))
            typer.echo(f"app {printable(name)}:")
            _show_holdings(found, "removed" if yes else "found")
    if yes:
        typer.echo("Not reached:\n" + "\n".join(f"  {where}" for where in UNREACHED))
    else:
        typer.echo("Nothing was removed; add --yes to remove it.")


def _show_holdings(found: Holdings, done: str) -> None:
    counts = {
        "sessions": len(found.sessions),
        "keys of user state": found.state_keys,
        "artifacts": found.artifacts,
        "credentials": found.credentials,
        "schedules": len(found.schedules.names),
        "workflow runs": len(found.runs.found),
        "payload folders": len(found.payloads),
    }
    for what, count in counts.items():
        typer.echo(f"{done} {count} {what}")
    typer.echo(f"{done} memory, if there was any")
    if found.runs.open:
        names = ", ".join(printable(name) for name in found.runs.open)
        typer.echo(f"open workflows {'before' if done == 'removed' else 'now'}: {names}")
    for what, unread in (("workflows", found.runs.unread), ("schedules", found.schedules.unread)):
        if unread:
            typer.echo(
                f"{unread} {what} could not be read, because a key is missing or they are broken; "
                "their user is unknown, so they were left alone"
            )
