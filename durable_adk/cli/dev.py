"""``durable-adk dev``: server, store and worker, kept up."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table

from durable_adk.apps.app import App
from durable_adk.cli.execution import execute
from durable_adk.cli.options import DataDir, Debug, Store, Target, TaskQueue
from durable_adk.cli.places import Places, load_app
from durable_adk.cli.terminal import plain_console
from durable_adk.embedded.server import ServerInfo, TemporalServer
from durable_adk.embedded.worker_process import start_worker_process
from durable_adk.errors import AlreadyExistsError
from durable_adk.log import configure, get_logger, printable

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_GOOD_RUN = 30.0  # seconds after which a process that dies counts as one that had worked

logger = get_logger(__name__)


def dev_command(
    target: Target,
    *,
    store: Store = None,
    task_queue: TaskQueue = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Keep a Temporal server, a worker for TARGET and a session store up, until Ctrl-C.

    Whatever dies is started again. `durable-adk run` in the same folder uses them, and so does any
    Temporal client.

    [bold]Example[/bold]

      durable-adk dev examples/capital_agent
    """
    configure("info")
    places = Places(store=store, task_queue=task_queue, data_dir=data_dir)
    execute(_develop(target, places), debug=debug, stopped=0)


async def _develop(target: str, places: Places) -> None:
    app = load_app(target)
    async with places.stores():
        pass  # what cannot be used is better told now than by a worker's log
    server: asyncio.Future[ServerInfo] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(_keep_server(places.folder, server))
        _show(target, app, await server, places)
        group.create_task(_keep_worker(target, app, await server, places))


async def _keep_server(folder: Path, started: "asyncio.Future[ServerInfo]") -> None:
    """Run a server; when it dies, another one at the same address, which clients find again."""
    port = ui_port = None
    pauses = Pauses()
    while True:
        try:
            async with TemporalServer.start(data_dir=folder, port=port, ui_port=ui_port) as server:
                if not started.done():
                    started.set_result(server.info)
                    port, ui_port = _port(server.address), _port(server.ui_url or "")
                pauses.begin()
                code = await server.wait()
        except AlreadyExistsError:
            if not started.done():
                raise
            code = None  # a `run` was quicker than we; when it ends, so does its server
        await pauses.wait("server", code, folder / "temporal.log")


async def _keep_worker(target: str, app: App, server: ServerInfo, places: Places) -> None:
    log = places.folder / "worker.log"
    pauses = Pauses()
    while True:
        process = await start_worker_process(
            target,
            address=server.address,
            store=places.store_url,
            task_queue=places.queue(app),
            data_dir=places.folder,
            log=log,
        )
        async with process:
            logger.info("process.started", what="worker", pid=process.pid, log=str(log))
            pauses.begin()
            code = await process.wait()
        await pauses.wait("worker", code, log)


@dataclass
class Pauses:
    """The wait before a dead process is started again: longer each time it dies young."""

    _next: float = _FIRST_PAUSE
    _began: float = field(default=0.0)

    def begin(self) -> None:
        """The process runs."""
        self._began = asyncio.get_running_loop().time()

    async def wait(self, what: str, code: int | None, log: Path) -> None:
        """It has ended."""
        if asyncio.get_running_loop().time() - self._began > _GOOD_RUN:
            self._next = _FIRST_PAUSE
        last = next(_last_lines(log), "")
        logger.warning(
            "process.ended", what=what, exit_code=code, again_in=self._next, last_words=last
        )
        await asyncio.sleep(self._next)
        self._next = min(2 * self._next, _LONGEST_PAUSE)


def _last_lines(log: Path) -> Iterator[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return (printable(line) for line in reversed(lines) if line.strip())


def _port(address: str) -> int | None:
    port = address.rpartition(":")[2]
    return int(port) if port else None


def _show(target: str, app: App, server: ServerInfo, places: Places) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for row in (
        ("app", app.name),
        ("Temporal", server.address),
        ("task queue", places.queue(app)),
        ("UI", server.ui_url or ""),
        ("store", _without_password(places.store_url)),
        ("talk to it", f"durable-adk run {target}"),
        ("end it", "Ctrl-C"),
    ):
        table.add_row(*row)
    plain_console().print(table)


def _without_password(url: str) -> str:
    head, at, rest = url.rpartition("@")
    return f"{head.rpartition(':')[0]}:***@{rest}" if at and "://" in url else url
