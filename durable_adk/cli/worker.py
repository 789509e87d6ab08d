"""``durable-adk worker`` and ``dev``: run workers."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from durable_adk.apps.app import App
from durable_adk.cli.connection import without_password
from durable_adk.cli.execution import command, ending_a_frozen_process, until_cancelled
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.target import Target, Targets
from durable_adk.cli.terminal import plain_console
from durable_adk.client.connect import connect, refuse_development_server
from durable_adk.embedded.server import ServerInfo, TemporalServer
from durable_adk.embedded.shared import start_worker_process
from durable_adk.errors import AlreadyExistsError
from durable_adk.log import get_logger, printable
from durable_adk.worker import Versioning, WorkerOptions, worker as run_worker

_FIRST_DELAY = 0.5
_MAX_DELAY = 30.0
_STABLE_RUN = 30.0  # seconds after which a process counts as one that had worked

BuildId = Annotated[
    str | None,
    typer.Option(
        envvar="DURABLE_ADK_BUILD_ID",
        help="Worker Versioning: the build id of this worker. Invocations stay on the build they "
        "started on.",
        show_default=False,
    ),
]
AutoUpgrade = Annotated[
    bool,
    typer.Option(
        "--auto-upgrade", help="With --build-id: move open invocations to the current build."
    ),
]
Dev = Annotated[bool, typer.Option("--dev", help="Accept a development server on another machine.")]

logger = get_logger(__name__)


@command("address", "store", "task_queue", "data_dir", log_level="info", stopped=0)
async def worker(
    connection: ServerConnection,
    targets: Targets,
    *,
    build_id: BuildId = None,
    auto_upgrade: AutoUpgrade = False,
    dev: Dev = False,
) -> None:
    """Run a worker for TARGETS on an existing Temporal, until Ctrl-C or SIGTERM.

    Temporal is at --address, else where the environment configuration of Temporal's SDKs says
    (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE, TLS, API key).

    [bold]Example[/bold]

      durable-adk worker my_agent other_agent --store shared/sessions.db
      durable-adk worker my_agent --build-id $(git rev-parse --short HEAD)
    """
    settings = connection.settings
    task_queue = connection.task_queue or settings.task_queue
    versioning = Versioning.parse(
        settings, task_queue=task_queue, build_id=build_id, auto_upgrade=auto_upgrade
    )
    options = WorkerOptions(
        task_queue=task_queue,
        limits=settings.limits,
        versioning=versioning,
        model_task_queues=settings.model_task_queues,
        max_task_queue_activities_per_second=settings.max_task_queue_activities_per_second,
    )
    apps = [load_app(target) for target in targets]
    async with connection.stores() as stores:
        client = await connect(connection.address)
        if not dev:
            await refuse_development_server(client)
        with ending_a_frozen_process(settings.limits.blocked_timeout):
            async with run_worker(client, apps=apps, options=options, **stores.arguments()):
                await until_cancelled()


@command("store", "task_queue", "data_dir", log_level="info", stopped=0)
async def dev(connection: ServerConnection, target: Target) -> None:
    """Keep a Temporal server, a worker for TARGET and a session store running, until Ctrl-C.

    A process that dies is started again. `durable-adk run` in the same folder uses them, and so can
    any Temporal client.

    [bold]Example[/bold]

      durable-adk dev examples/capital_agent
    """
    app = load_app(target)
    connection.note_target(app.name, target)
    async with connection.stores():
        pass  # report a store that cannot be used here, not in the worker's log
    server: asyncio.Future[ServerInfo] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(_keep_server(connection.folder, server))
        _show(target, app, await server, connection)
        group.create_task(_keep_worker(target, app, await server, connection))


async def _keep_server(folder: Path, started: "asyncio.Future[ServerInfo]") -> None:
    """Run a server; if it dies, start another at the same address, so that clients find it."""
    port = ui_port = None
    restart = RestartDelay()
    while True:
        try:
            async with TemporalServer.start(data_dir=folder, port=port, ui_port=ui_port) as server:
                if not started.done():
                    started.set_result(server.info)
                    port, ui_port = _port(server.address), _port(server.ui_url or "")
                restart.begin()
                code = await server.wait()
        except AlreadyExistsError:
            if not started.done():
                raise
            code = None  # a `run` command has started a server; it ends with that command
        await restart.wait("server", code, folder / "temporal.log")


async def _keep_worker(
    target: str, app: App, server: ServerInfo, connection: ServerConnection
) -> None:
    log = connection.folder / "worker.log"
    restart = RestartDelay()
    while True:
        process = await start_worker_process(
            target,
            address=server.address,
            store=connection.store_url,
            task_queue=connection.queue(app.name),
            data_dir=connection.folder,
            log=log,
        )
        async with process:
            logger.info("process.started", what="worker", pid=process.pid, log=str(log))
            restart.begin()
            code = await process.wait()
        await restart.wait("worker", code, log)


@dataclass
class RestartDelay:
    """The delay before a dead process is started again; it doubles if the process dies soon."""

    _next: float = _FIRST_DELAY
    _began: float = field(default=0.0)

    def begin(self) -> None:
        """Note that the process has started."""
        self._began = asyncio.get_running_loop().time()

    async def wait(self, what: str, code: int | None, log: Path) -> None:
        """Log that the process has ended, then wait."""
        if asyncio.get_running_loop().time() - self._began > _STABLE_RUN:
            self._next = _FIRST_DELAY
        last = next(_last_lines(log), "")
        logger.warning(
            "process.ended", what=what, exit_code=code, again_in=self._next, last_words=last
        )
        await asyncio.sleep(self._next)
        self._next = min(2 * self._next, _MAX_DELAY)


def _last_lines(log: Path) -> Iterator[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return (printable(line) for line in reversed(lines) if line.strip())


def _port(address: str) -> int | None:
    port = address.rpartition(":")[2]
    return int(port) if port else None


def _show(target: str, app: App, server: ServerInfo, connection: ServerConnection) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for row in (
        ("app", app.name),
        ("Temporal", server.address),
        ("task queue", connection.queue(app.name)),
        ("UI", server.ui_url or ""),
        ("store", without_password(connection.store_url)),
        ("try it", f"durable-adk run {target}"),
        ("stop", "Ctrl-C"),
    ):
        table.add_row(*row)
    plain_console().print(table)
