"""``durable-adk serve``, and the HTTP server of ``durable-adk web``."""

import asyncio
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Self

import typer
from temporalio.client import Client

from durable_adk.apps.app_declaration import AppDescription
from durable_adk.cli.server import ServerConnection
from durable_adk.client.connect import connect
from durable_adk.embedded.runner import embedded_task_queue
from durable_adk.embedded.server import ServerInfo, TemporalServer
from durable_adk.embedded.shared import connect_embedded, payload_storage
from durable_adk.extras import require
from durable_adk.settings import DEFAULT_TASK_QUEUE, read_settings

_APP = "durable_adk.server.app"


class PageServer:
    """The HTTP server next to the server and the worker of `web`."""

    def __init__(self, application: Any, *, opens: bool) -> None:
        self._services = application.state.services
        self._services.loaded.clear()
        self._opens = opens
        self._url = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str:
        """Its address."""
        return self._url.result()

    @classmethod
    @asynccontextmanager
    async def served(
        cls, connection: ServerConnection, server: ServerInfo, *, opens: bool, **options: Any
    ) -> AsyncGenerator[Self]:
        """Serve HTTP during the body.

        Args:
            connection: The stores, and the task queues of the apps.
            server: The Temporal server.
            opens: Whether to open the page in a browser once the apps are loaded.
            **options: Settings of the HTTP server; None: those of the environment.
        """
        client = await connect_embedded(server.address, payload_storage(connection.folder))
        options["temporal_ui"] = server.ui_url
        async with _application(connection, client, connection.queue, options) as application:
            page = cls(application, opens=opens)
            serve_page = import_module(_APP).serve(application, listening=page._url.set_result)
            serving = asyncio.ensure_future(serve_page)
            try:
                await asyncio.wait({serving, page._url}, return_when=asyncio.FIRST_COMPLETED)
                if serving.done():
                    serving.result()
                yield page
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

    def loaded(self, report: dict[str, Any]) -> None:
        """Serve the loaded apps; the first time, open the page."""
        found = [AppDescription.read(one) for one in report["described"]]
        self._services.apps = {one.name: one for one in found}
        self._services.loaded.set()
        if self._opens:
            self._opens = False
            asyncio.get_running_loop().run_in_executor(None, webbrowser.open, self.url)


async def serve(
    connection: ServerConnection,
    *,
    app: list[str] | None,
    host: str | None,
    port: int | None,
    adk_ui: str | None,
) -> None:
    """Serve HTTP for workers that run elsewhere, until cancelled."""
    require("web")
    client, queue = await _running(connection)
    options = {"host": host, "port": port, "adk_ui": adk_ui, "apps": app}

    def queue_of(name: str) -> str:
        return queue or embedded_task_queue(name)

    async with _application(connection, client, queue_of, options) as application:
        await import_module(_APP).serve(application, listening=_say)


def _say(url: str) -> None:
    typer.echo(f"Serving at {url}")


async def _running(connection: ServerConnection) -> tuple[Client, str | None]:
    """Return the running Temporal, and its task queue; None: each app has its own."""
    queue = connection.task_queue or connection.settings.task_queue
    if connection.address is None:
        embedded = await TemporalServer.find(connection.data_folder)
        if embedded is not None:
            storage = payload_storage(connection.data_folder)
            own = None if queue == DEFAULT_TASK_QUEUE else queue
            return await connect_embedded(embedded.address, storage), own
    return await connect(connection.address), queue


@asynccontextmanager
async def _application(
    connection: ServerConnection, client: Client, task_queue: Any, options: dict[str, Any]
) -> AsyncGenerator[Any]:
    """Yield the application on the connection's stores; settings replace options that are None."""
    module = import_module(_APP)
    overrides = {name: value for name, value in options.items() if value is not None}
    settings = read_settings(module.ServerSettings, **overrides)
    async with connection.stores() as stores:
        yield module.app(
            client=client, task_queue=task_queue, settings=settings, **stores.arguments()
        )
