"""The commands that serve HTTP."""

from typing import Annotated

import typer

from durable_adk.cli.commands.agents import Quiet, Reload, UiPort
from durable_adk.cli.commands.declaration import command
from durable_adk.cli.commands.options import ConnectionOptions, Targets

Host = Annotated[
    str | None,
    typer.Option(help="The address to listen at. Default: 127.0.0.1", show_default=False),
]
Port = Annotated[
    int | None,
    typer.Option(
        help="The port; 0: any free one. Default: 8000", min=0, max=65535, show_default=False
    ),
]
AdkUi = Annotated[
    str | None,
    typer.Option(
        help="Folder of the files of ADK's web page. Default: those of an installed google-adk.",
        show_default=False,
    ),
]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]
Apps = Annotated[
    list[str] | None,
    typer.Option("--app", help="Name of an app; repeatable. Default: those that workers serve."),
]


@command("dev.serving:web", "store", "task_queue", "data_dir", stopped=0)
def web(
    connection: ConnectionOptions,
    targets: Targets,
    *,
    host: Host = None,
    port: Port = None,
    ui_port: UiPort = None,
    adk_ui: AdkUi = None,
    open_: Open = True,
    reload: Reload = True,
    quiet: Quiet = False,
) -> None:
    """Do what `dev` does, and serve TARGETS to browsers and other clients over HTTP.

    The page lists sessions and runs, chats with the agents, and shows what waits for an answer. The
    runs survive this command: start it again, and they go on.

    Whoever reaches 127.0.0.1 may act for every user. With another --host it needs a way to know its
    users: DURABLE_ADK_SERVER_TOKENS_FILE, DURABLE_ADK_SERVER_PROXY_HEADER or
    DURABLE_ADK_SERVER_OIDC. docs/use/server.md has these and all other settings; docs/use/page.md
    has the page.

    [bold]Example[/bold]

      durable-adk web examples/capital_agent
    """


@command(
    "dev.http:serve", "address", "store", "task_queue", "data_dir", log_level="info", stopped=0
)
def serve(
    connection: ConnectionOptions,
    *,
    app: Apps = None,
    host: Host = None,
    port: Port = None,
    adk_ui: AdkUi = None,
) -> None:
    """Serve agents over HTTP, until Ctrl-C or SIGTERM.

    Workers run elsewhere, on the same Temporal, store and task queue; this command needs none of
    their code, and starts no Temporal. Any number of these servers may run behind a load balancer:
    each can go on with any stream. Without --address it serves the apps of the `dev` or `web` that
    runs in the data folder, each on its own task queue; if none does, it tries localhost:7233.

    Whoever reaches 127.0.0.1 may act for every user. With another --host it needs a way to know its
    users: DURABLE_ADK_SERVER_TOKENS_FILE, DURABLE_ADK_SERVER_PROXY_HEADER or
    DURABLE_ADK_SERVER_OIDC. docs/use/server.md has these and all other settings.

    [bold]Example[/bold]

      durable-adk serve --store postgresql://db/agents --port 8080
    """
