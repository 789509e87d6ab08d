"""``durable-adk db``: the tables of the databases."""

import typer

from durable_adk.cli.execution import FAILED, execute
from durable_adk.cli.options import DataDir, Debug, Store
from durable_adk.cli.places import Places, place_shown
from durable_adk.log import configure, printable
from durable_adk.sessions.schema_version import SchemaVersion

db = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@db.callback()
def db_group() -> None:
    """The tables of the session store: which version they are of, and upgrade them.

    So also those of other databases that the settings name for memory or credentials.
    """


@db.command("upgrade")
def upgrade_command(*, store: Store = None, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Make the tables, or bring them to the version of this package.

    Run it before workers of a new version start; those of the version before go on meanwhile, and
    after it until they are stopped. Of two that run at once one waits.

    [bold]Example[/bold]

      durable-adk db upgrade --store postgresql://adk@db.internal/adk
    """
    configure("warning")
    execute(_upgrade(Places(store=store, data_dir=data_dir)), debug=debug)


@db.command("status")
def status_command(*, store: Store = None, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Say which version the tables are of; nothing is changed.

    It exits with 1 if they are not those of this package.

    [bold]Example[/bold]

      durable-adk db status --store postgresql://adk@db.internal/adk
    """
    configure("warning")
    found: list[SchemaVersion] = []

    async def work() -> None:
        places = Places(store=store, data_dir=data_dir)
        for url in places.databases:
            async with places.unprepared_sessions(url) as sessions:
                found.append(await sessions.schema())
            _show(url, found[-1])

    try:
        execute(work(), debug=debug)
    except typer.Exit as ended:
        usable = all(one.current or one.empty for one in found)
        raise typer.Exit(ended.exit_code or (0 if usable else FAILED)) from None


async def _upgrade(places: Places) -> None:
    for url in places.databases:
        async with places.unprepared_sessions(url) as sessions:
            before = await sessions.schema()
            await sessions.upgrade()
        was = "" if before.current else f" It was {before.found or 'empty'}."
        typer.echo(f"{printable(place_shown(url))} is of version {before.needed}.{was}")


def _show(url: str, found: SchemaVersion) -> None:
    if found.empty:
        state = f"empty; its first use makes the tables of version {found.needed}"
    elif found.current:
        state = f"of version {found.needed}, as this package needs it"
    elif found.newer:
        state = f"of version {found.found}, newer than this package, which knows {found.needed}"
    else:
        state = f"of version {found.found}; `durable-adk db upgrade` brings it to {found.needed}"
    typer.echo(f"{printable(place_shown(url))} is {state}.")
