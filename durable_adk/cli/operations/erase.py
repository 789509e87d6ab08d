"""``durable-adk erase``: delete a user's data."""

import typer

from durable_adk.cli.server import ServerConnection
from durable_adk.log import printable
from durable_adk.ops.erasure import UNREACHED, Erasure, Holdings, erase as erase_user, survey


async def erase(connection: ServerConnection, *, user: str, app: str | None, yes: bool) -> None:
    """List a user's data; with --yes, delete it from all stores and from Temporal."""
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
