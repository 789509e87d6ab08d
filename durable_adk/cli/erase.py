"""``durable-adk erase``: removes all that is kept of a person."""

from typing import Annotated

import typer

from durable_adk.cli.execution import execute
from durable_adk.cli.options import Address, DataDir, Debug, Store
from durable_adk.cli.places import Places
from durable_adk.log import configure, printable
from durable_adk.ops.erasure import Erasure, Holdings, erase, survey
from durable_adk.ops.erasure.erasing import UNREACHED

App = Annotated[
    str | None,
    typer.Option(
        "--app", help="Only this app. Default: all that have sessions.", show_default=False
    ),
]
Person = Annotated[str, typer.Option("--user", help="The user's id.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove it; else it is only shown.")]


def erase_command(
    *,
    user: Person,
    app: App = None,
    yes: Yes = False,
    address: Address = None,
    store: Store = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Show what is kept of a user, and with --yes remove it from all stores and from Temporal.

    Open invocations are ended. Run it again after an error, and name the app if it is not among
    those that it says; what it cannot reach, it says too.

    [bold]Example[/bold]

      durable-adk erase --user anna --yes
    """
    configure("warning")
    places = Places(address=address, store=store, data_dir=data_dir)

    async def work() -> None:
        async with (
            places.sessions(existing=True) as sessions,
            places.stores() as stores,
            places.temporal() as client,
        ):
            names = [app] if app else await sessions.list_apps()
            if not names:
                typer.echo("No app has sessions here; name one with --app.")
            for name in names:
                erasure = Erasure(app=name, user=user, client=client, **stores.services())
                found = await (erase(erasure) if yes else survey(erasure))
                typer.echo(f"app {printable(name)}:")
                _show(found, "removed" if yes else "found")
        if yes:
            typer.echo("Not reached:\n" + "\n".join(f"  {where}" for where in UNREACHED))
        else:
            typer.echo("Nothing was removed; --yes removes it.")

    execute(work(), debug=debug)


def _show(found: Holdings, done: str) -> None:
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
        typer.echo(
            f"of the workflows, these {'were' if done == 'removed' else 'are'} open: {names}"
        )
    for what, unread in (("workflows", found.runs.unread), ("schedules", found.schedules.unread)):
        if unread:
            typer.echo(
                f"{unread} {what} could not be read, for want of a key or because they are broken: "
                "whose they are is not known here, so they were left alone"
            )
