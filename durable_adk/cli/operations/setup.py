"""``durable-adk db``, ``search-attributes``, ``key`` and ``codec``: set up a deployment."""

import asyncio
from typing import Annotated

import typer
from temporalio.converter import DataConverter

from durable_adk.cli.connection import without_password
from durable_adk.cli.execution import FAILED, command
from durable_adk.cli.program import group
from durable_adk.cli.server import ServerConnection
from durable_adk.client.connect import converter_of
from durable_adk.client.search_attributes import register_search_attributes
from durable_adk.encryption import Key
from durable_adk.errors import InvalidRequestError
from durable_adk.log import printable
from durable_adk.ops.codec_server import Access, Decoder, application, serve
from durable_adk.ops.codec_server.access import LOOPBACK, is_loopback
from durable_adk.sessions.sql.schema_version import SchemaVersion

db = group(
    "Show or upgrade the version of the session store's tables.\n\n"
    "Also those of other databases that the settings name for memory or credentials."
)
key = group("Make keys that encrypt what Temporal stores.")

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


@db.command("upgrade")
@command("store", "data_dir")
async def db_upgrade(connection: ServerConnection) -> None:
    """Create the tables, or upgrade them to the version of this package.

    Run it before workers of a new version start; workers of the previous version continue to work.
    If two upgrades run at once, one waits for the other.

    [bold]Example[/bold]

      durable-adk db upgrade --store postgresql://adk@db.internal/adk
    """
    for url in connection.databases:
        async with connection.database(url) as sessions:
            before = await sessions.schema()
            await sessions.upgrade()
        was = "" if before.current else f" (was: {before.found or 'empty'})"
        typer.echo(f"{printable(without_password(url))}: version {before.needed}{was}.")


@db.command("status")
@command("store", "data_dir")
async def db_status(connection: ServerConnection) -> int:
    """Show the version of the tables; nothing is changed.

    Exits with 1 if it is not the version of this package.

    [bold]Example[/bold]

      durable-adk db status --store postgresql://adk@db.internal/adk
    """
    usable = True
    for url in connection.databases:
        async with connection.database(url) as sessions:
            found = await sessions.schema()
        usable &= found.current or found.empty
        typer.echo(f"{printable(without_password(url))}: {_version(found)}.")
    return 0 if usable else FAILED


def _version(found: SchemaVersion) -> str:
    if found.empty:
        return f"empty; the first use creates the tables of version {found.needed}"
    if found.current:
        return f"version {found.needed}, as this package requires"
    if found.newer:
        return f"version {found.found}, newer than this package, which requires {found.needed}"
    return f"version {found.found}; run `durable-adk db upgrade` for version {found.needed}"


@key.command("new")
@command()
async def key_new(*, key_id: KeyId = None) -> None:
    """Print a new key, as a line of a key file.

    DURABLE_ADK_ENCRYPTION_KEYS names the file. Its first key encrypts, all keys decrypt. So put a
    new key first, and keep an old one for as long as Temporal stores what it has encrypted.

    [bold]Example[/bold]

      (umask 077; durable-adk key new > keys)
    """
    typer.echo(Key.new(key_id).line())


@command("address", "data_dir")
async def search_attributes(
    connection: ServerConnection, *, impersonal: Impersonal = False
) -> None:
    """Register the search attributes that make invocations searchable in Temporal.

    Clients set the attributes that the namespace has, so nothing else needs to be done. If you may
    not change the namespace, it prints the commands for an administrator.

    [bold]Example[/bold]

      durable-adk search-attributes
      temporal workflow list --query "DurableAdkStatus = 'waiting' AND ExecutionStatus = 'Running'"
    """
    client = await connection.running()
    added = await register_search_attributes(client, personal=not impersonal)
    typer.echo(f"Registered {', '.join(added)}." if added else "They are already registered.")


@command("data_dir", log_level="info", stopped=0)
async def codec(
    connection: ServerConnection,
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
    if not is_loopback(host) and not allow_remote:
        raise InvalidRequestError(
            f"Other machines can reach {host}, and the token and all content cross the network "
            "unencrypted. Listen at 127.0.0.1, or add --allow-remote and a proxy with TLS."
        )
    given = connection.settings.codec_token
    token = {} if given is None else {"token": given.get_secret_value()}
    hosts = (*LOOPBACK, _in_url(host), *(name or []))
    access = Access(origins=tuple(origin or []), hosts=hosts, **token)
    decoder = Decoder.of(await asyncio.to_thread(_converter, connection))

    def listening(port: int) -> None:
        _show_server(host, port, access, made=given is None)

    await serve(application(decoder, access), host=host, port=port, listening=listening)


def _converter(connection: ServerConnection) -> DataConverter:
    """The converter of workers and clients, those of an embedded server included."""
    settings, embedded = connection.settings, connection.embedded_payloads
    if settings.payloads is None and embedded.is_dir():
        settings = settings.model_copy(update={"payloads": embedded})
    return converter_of(settings)


def _show_server(host: str, port: int, access: Access, *, made: bool) -> None:
    url = f"http://{_in_url(host)}:{port}"
    token = access.token if made else "$DURABLE_ADK_CODEC_TOKEN"
    for name, text in (
        ("codec server", url),
        ("temporal", f'--codec-endpoint {url} --codec-auth "Bearer {token}"'),
        ("UI", f"{url}/{token}" if access.origins else "needs --origin"),
        ("stop", "Ctrl-C"),
    ):
        typer.echo(f"{name:<14}{text}")  # each on one line, to be copied


def _in_url(host: str) -> str:
    """An address as it is written in a URL."""
    return f"[{host}]" if ":" in host else host
