"""``durable-adk codec``: has Temporal's UI and command line show what is encrypted."""

import asyncio
from typing import Annotated

import typer
from temporalio.converter import DataConverter

from durable_adk.cli.execution import execute
from durable_adk.cli.options import DataDir, Debug
from durable_adk.cli.places import Places
from durable_adk.client.connect import converter_of
from durable_adk.errors import InvalidRequestError
from durable_adk.log import configure
from durable_adk.ops.codec_server import Access, Decoder, application, serve
from durable_adk.ops.codec_server.access import LOOPBACK, is_loopback

Origin = Annotated[
    list[str] | None,
    typer.Option(
        help="Where Temporal's UI is, such as http://localhost:8233; repeatable. Default: no page "
        "may ask.",
        show_default=False,
    ),
]
Host = Annotated[str, typer.Option(help="The address to listen at.")]
Port = Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)]
Name = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        help="Another name that the server is called by, such as that of a proxy in front of it; "
        "repeatable.",
        show_default=False,
    ),
]
AllowRemote = Annotated[
    bool,
    typer.Option(
        "--allow-remote",
        help="Accept a --host that other machines reach. It speaks no TLS: put a proxy in front.",
    ),
]


def codec_command(
    *,
    origin: Origin = None,
    host: Host = "127.0.0.1",
    port: Port = 8081,
    name: Name = None,
    allow_remote: AllowRemote = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Decrypt for Temporal's UI and command line, until Ctrl-C or SIGTERM.

    It is Temporal's "codec server", for decoding only. It needs the keys that the workers have
    (DURABLE_ADK_ENCRYPTION_KEYS). Whoever has its token reads all that the keys decrypt. The token
    is DURABLE_ADK_CODEC_TOKEN, or is made and shown.

    [bold]Example[/bold]

      durable-adk codec --origin http://localhost:8233
    """
    configure("info")
    places = Places(data_dir=data_dir)
    execute(
        _serve(places, host, port, origin or [], name or [], allow_remote=allow_remote),
        debug=debug,
        stopped=0,
    )


async def _serve(
    places: Places,
    host: str,
    port: int,
    origins: list[str],
    names: list[str],
    *,
    allow_remote: bool,
) -> None:
    if not is_loopback(host) and not allow_remote:
        raise InvalidRequestError(
            f"Other machines reach {host}, and whoever reads along there gets the token and all "
            "content. Listen at 127.0.0.1, or say --allow-remote and put a proxy with TLS in front."
        )
    given = places.settings.codec_token
    token = {} if given is None else {"token": given.get_secret_value()}
    access = Access(origins=tuple(origins), hosts=(*LOOPBACK, _name(host), *names), **token)
    decoder = Decoder.of(await asyncio.to_thread(_converter, places))

    def listening(port: int) -> None:
        _show(host, port, access, made=given is None)

    await serve(application(decoder, access), host=host, port=port, listening=listening)


def _converter(places: Places) -> DataConverter:
    """What workers and clients write with, those of an embedded server too."""
    settings, own = places.settings, places.embedded_payloads
    if settings.payloads is None and own.is_dir():
        settings = settings.model_copy(update={"payloads": own})
    return converter_of(settings)


def _show(host: str, port: int, access: Access, *, made: bool) -> None:
    where = f"http://{_name(host)}:{port}"
    token = access.token if made else "$DURABLE_ADK_CODEC_TOKEN"
    for name, text in (
        ("codec server", where),
        ("temporal", f'--codec-endpoint {where} --codec-auth "Bearer {token}"'),
        ("UI", f"{where}/{token}" if access.origins else "needs --origin"),
        ("end it", "Ctrl-C"),
    ):
        typer.echo(f"{name:<14}{text}")  # on one line each, to be copied


def _name(host: str) -> str:
    """An address as requests write it."""
    return f"[{host}]" if ":" in host else host
