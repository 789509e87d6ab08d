"""``durable-adk db``, ``search-attributes``, ``key`` and ``codec``: set up a deployment."""

import asyncio

import typer
from temporalio.converter import DataConverter

from durable_adk.cli.connection import without_password
from durable_adk.cli.execution import FAILED
from durable_adk.cli.server import ServerConnection
from durable_adk.client.connect import converter_of
from durable_adk.client.search_attributes import register_search_attributes
from durable_adk.encryption import Key
from durable_adk.errors import InvalidRequestError
from durable_adk.http.address import LOOPBACK, is_loopback
from durable_adk.log import printable
from durable_adk.ops.codec_server import Access, Decoder, codec_application, serve
from durable_adk.sql.migrate import SchemaVersion


async def db_upgrade(connection: ServerConnection) -> None:
    """Create the tables, or upgrade them to the version of this package."""
    for url in connection.databases:
        async with connection.database(url) as sessions:
            before = await sessions.schema()
            await sessions.upgrade()
        was = "" if before.current else f" (was: {before.found or 'empty'})"
        typer.echo(f"{printable(without_password(url))}: version {before.needed}{was}.")


async def db_status(connection: ServerConnection) -> int:
    """Show the version of the tables; nothing is changed."""
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


async def key_new(*, key_id: str | None) -> None:
    """Print a new key, as a line of a key file."""
    typer.echo(Key.new(key_id).line())


async def search_attributes(connection: ServerConnection, *, impersonal: bool) -> None:
    """Register the search attributes that make invocations searchable in Temporal."""
    client = await connection.running()
    added = await register_search_attributes(client, personal=not impersonal)
    typer.echo(f"Registered {', '.join(added)}." if added else "They are already registered.")


async def codec(
    connection: ServerConnection,
    *,
    origin: list[str] | None,
    host: str,
    port: int,
    name: list[str] | None,
    allow_remote: bool,
) -> None:
    """Decrypt payloads for Temporal's UI and command line, until Ctrl-C or SIGTERM."""
    if not is_loopback(host) and not allow_remote:
        raise InvalidRequestError(
            f"Other machines can reach {host}, and the token and all content cross the network "
            "unencrypted. Listen at 127.0.0.1, or add --allow-remote and a proxy with TLS."
        )
    configured = connection.settings.codec_token
    token = {} if configured is None else {"token": configured.get_secret_value()}
    hosts = (*LOOPBACK, host, *(name or []))
    access = Access(origins=tuple(origin or []), hosts=hosts, **token)
    decoder = Decoder.of(await asyncio.to_thread(_converter, connection))

    def listening(url: str) -> None:
        _show_server(url, access, made=configured is None)

    await serve(codec_application(decoder, access), host=host, port=port, listening=listening)


def _converter(connection: ServerConnection) -> DataConverter:
    """Return the converter of workers and clients, including those of an embedded server."""
    settings, embedded = connection.settings, connection.embedded_payloads
    if settings.payloads is None and embedded.is_dir():
        settings = settings.model_copy(update={"payloads": embedded})
    return converter_of(settings)


def _show_server(url: str, access: Access, *, made: bool) -> None:
    token = access.token if made else "$DURABLE_ADK_CODEC_TOKEN"
    for name, text in (
        ("codec server", url),
        ("temporal", f'--codec-endpoint {url} --codec-auth "Bearer {token}"'),
        ("UI", f"{url}/{token}" if access.origins else "needs --origin"),
        ("stop", "Ctrl-C"),
    ):
        typer.echo(f"{name:<14}{text}")  # each on its own line, for copying
