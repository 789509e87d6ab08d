"""``durable-adk dev`` and ``web``: keep a server and a worker running, and reload changed code."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from durable_adk.cli.connection import without_password
from durable_adk.cli.dev.feed import SessionsFeed
from durable_adk.cli.dev.files import WatchedFiles
from durable_adk.cli.dev.http import PageServer
from durable_adk.cli.dev.lines import Lines
from durable_adk.cli.dev.process import WorkerProcess
from durable_adk.cli.dev.state import DevFile, claim
from durable_adk.cli.dev.worker import Serving
from durable_adk.cli.server import ServerConnection
from durable_adk.cli.target import agents_in
from durable_adk.cli.terminal import busy, plain_console
from durable_adk.embedded.server import ServerInfo, TemporalServer, is_free
from durable_adk.errors import AgentDefinitionError, AlreadyExistsError
from durable_adk.extras import require

_FIRST_DELAY = 0.5
_MAX_DELAY = 30.0
_STABLE_RUN = 30.0  # seconds after which a process is considered stable


async def dev(
    connection: ServerConnection,
    targets: list[str],
    *,
    port: int | None,
    ui_port: int | None,
    reload: bool,
    quiet: bool,
) -> None:
    """Serve TARGETS, show what happens, and reload changed code, until cancelled."""
    await _keep(connection, targets, port=port, ui_port=ui_port, reload=reload, quiet=quiet)


async def web(
    connection: ServerConnection,
    targets: list[str],
    *,
    host: str | None,
    port: int | None,
    ui_port: int | None,
    adk_ui: str | None,
    open_: bool,
    reload: bool,
    quiet: bool,
) -> None:
    """Do what `dev` does, and serve TARGETS over HTTP."""
    require("web")
    page = {"opens": open_, "host": host, "port": port, "adk_ui": adk_ui}
    await _keep(
        connection, targets, port=None, ui_port=ui_port, reload=reload, quiet=quiet, page=page
    )


async def _keep(
    connection: ServerConnection,
    targets: list[str],
    *,
    port: int | None,
    ui_port: int | None,
    reload: bool,
    quiet: bool,
    page: dict[str, Any] | None = None,
) -> None:
    found = list(dict.fromkeys(one for target in targets for one in agents_in(target)))
    lines = Lines(quiet=quiet)
    folder = connection.folder
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(claim(folder))
        file.write(apps=[])
        async with connection.stores():
            pass  # report an unusable store here, not in the worker's log
        sessions = await stack.enter_async_context(connection.sessions())
        feed = SessionsFeed(
            sessions, lines, log=folder / "worker.log", options=connection.arguments
        )
        with busy("starting a Temporal server"):
            port = port or _last_port(file, lines)
            server = await stack.enter_async_context(_server(folder, port, ui_port, lines))
        file.write(port=_port(server))
        serving = PageServer.served(connection, server, **page) if page else nullcontext()
        served_page = await stack.enter_async_context(serving)
        keeper = _Keeper(
            connection,
            _serving(connection, found, server),
            server=server,
            file=file,
            lines=lines,
            feed=feed,
            reload=reload,
            page=served_page,
        )
        async with asyncio.TaskGroup() as group:
            following = group.create_task(feed.run())
            try:
                await keeper.run()
            finally:
                following.cancel()  # after all worker processes have ended


def _serving(connection: ServerConnection, targets: list[str], server: ServerInfo) -> Serving:
    return Serving(
        targets=targets,
        address=server.address,
        store=connection.store_url,
        task_queue=connection.task_queue,
        data_dir=connection.folder,
    )


def _last_port(file: DevFile, lines: Lines) -> int | None:
    """Return the port of the last start; None if it is in use."""
    last = file.state.port
    if last is None or is_free(last):
        return last
    text = f"Port {last}, which Temporal had before, is in use; another one is chosen."
    lines.notice("port.in_use", text, port=last)
    return None


@asynccontextmanager
async def _server(
    folder: Path, port: int | None, ui_port: int | None, lines: Lines
) -> AsyncGenerator[ServerInfo]:
    """Keep a server running during the body; if it dies, start another at the same address.

    Its UI runs only if a UI port was requested.
    """
    started: asyncio.Future[ServerInfo] = asyncio.get_running_loop().create_future()

    async def keep() -> None:
        restart = RestartDelay(lines)
        current = port
        while True:
            try:
                async with TemporalServer.start(
                    data_dir=folder, port=current, ui_port=ui_port, headless=ui_port is None
                ) as server:
                    current = _port(server.info)
                    if not started.done():
                        started.set_result(server.info)
                    restart.begin()
                    code = await server.wait()
            except AlreadyExistsError:
                if not started.done():
                    raise
                code = None  # a `run` command has started a server, which ends with that command
            await restart.wait("Temporal server", code, folder / "temporal.log")

    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(keep())
        await asyncio.wait({keeping, started}, return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            yield started.result()
            keeping.cancel()


@dataclass
class RestartDelay:
    """The delay before a restart; it doubles if the process dies early."""

    lines: Lines
    _next: float = _FIRST_DELAY
    _began: float = field(default=0.0)

    def begin(self) -> None:
        """Record the start of the process."""
        self._began = asyncio.get_running_loop().time()

    async def wait(self, what: str, code: int | None, log: Path) -> None:
        """Report the end of the process, then wait."""
        if asyncio.get_running_loop().time() - self._began > _STABLE_RUN:
            self._next = _FIRST_DELAY
        last = next(_last_lines(log), "")
        text = f"The {what} ended with code {code}; another one starts in {self._next:g} s. {last}"
        values = {"exit_code": code, "again_in": self._next, "last_words": last}
        self.lines.notice("process.ended", text.rstrip(), style="red", what=what, **values)
        await asyncio.sleep(self._next)
        self._next = min(2 * self._next, _MAX_DELAY)


def _last_lines(log: Path) -> Iterator[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return (line for line in reversed(lines) if line.strip())


def _port(server: ServerInfo) -> int:
    return int(server.address.rpartition(":")[2])


class _Keeper:
    """Keeps a worker process running, with the newest code that can be loaded.

    A new process loads the new code while the old one still serves. Then the old one takes no more
    steps, and completes the running ones in its graceful shutdown. Unfinished steps and waiting
    invocations continue with the new code, as after a deployment.
    """

    def __init__(
        self,
        connection: ServerConnection,
        serving: Serving,
        *,
        server: ServerInfo,
        file: DevFile,
        lines: Lines,
        feed: SessionsFeed,
        reload: bool,
        page: PageServer | None,
    ) -> None:
        self._page = page
        self._connection = connection
        self._serving = serving
        self._server = server
        self._file = file
        self._lines = lines
        self._feed = feed
        self._reload = reload
        self._log = serving.data_dir / "worker.log"
        self._watched = WatchedFiles()
        self._changed = asyncio.Event()
        self._started: list[WorkerProcess] = []

    async def run(self) -> None:
        """Keep the process running until cancelled.

        Raises:
            AgentDefinitionError: The agents cannot be loaded when `dev` starts.
        """
        try:
            async with asyncio.TaskGroup() as group:
                await self._keep(group)
        finally:
            if self._feed.apps:
                text = "Stopping; steps that run have ten seconds. Ctrl-C again does not wait."
                self._lines.notice("dev.stopping", text, style="dim")
            await asyncio.gather(*(one.stop() for one in self._started))

    async def _keep(self, group: asyncio.TaskGroup) -> None:
        serves: WorkerProcess | None = None
        restart = RestartDelay(self._lines)
        while True:
            self._changed.clear()
            fresh = await WorkerProcess.start(self._serving, self._feed.enqueue)
            self._started = [one for one in self._started if one.runs] + [fresh]
            restart.begin()
            report = await self._loading(fresh)
            if report is None:
                group.create_task(fresh.stop())
                continue
            if fresh.has_loaded:
                if serves is not None:
                    group.create_task(serves.stop())
                self._loaded(report, first=not self._feed.apps, group=group)
                serves = fresh
            elif not self._feed.apps:
                raise AgentDefinitionError(report["message"])
            else:
                self._report_load_failure(report["message"], serves)
            serves = await self._next(serves, restart)

    async def _loading(self, fresh: WorkerProcess) -> dict[str, Any] | None:
        """Return a process's report of loading; None if the code changes first.

        An import in user code may never end.
        """
        changed = asyncio.ensure_future(self._changed.wait())
        loading = asyncio.ensure_future(fresh.loading())
        try:
            await asyncio.wait({changed, loading}, return_when=asyncio.FIRST_COMPLETED)
            return loading.result() if loading.done() else None
        finally:
            changed.cancel()
            loading.cancel()

    async def _next(
        self, serves: WorkerProcess | None, restart: RestartDelay
    ) -> WorkerProcess | None:
        """Wait until another worker must be started; return the one that serves until then."""
        changed = asyncio.ensure_future(self._changed.wait())
        ended = asyncio.ensure_future(serves.wait()) if serves else None
        if ended is None and not self._reload:
            ended = asyncio.ensure_future(asyncio.sleep(0, 1))
        try:
            await asyncio.wait(
                {one for one in (changed, ended) if one}, return_when=asyncio.FIRST_COMPLETED
            )
            if ended is not None and ended.done():
                waits = asyncio.ensure_future(restart.wait("worker", ended.result(), self._log))
                await asyncio.wait({changed, waits}, return_when=asyncio.FIRST_COMPLETED)
                waits.cancel()
                return None
            return serves
        finally:
            changed.cancel()
            if ended is not None:
                ended.cancel()

    def _loaded(self, report: dict[str, Any], *, first: bool, group: asyncio.TaskGroup) -> None:
        """Follow, list and watch the loaded apps."""
        apps: dict[str, str] = report["apps"]
        self._feed.apps = list(apps)
        self._lines.align(report["agents"])
        self._file.write(apps=list(apps))
        for name, target in apps.items():
            self._connection.record_target(name, target)
        if self._page is not None:
            self._page.loaded(report)
        self._watched.use(
            [path for target in apps.values() if (path := Path(target).resolve()).exists()],
            [Path(file) for file in report["files"]],
        )
        if first:
            self._show(apps)
            if self._reload:
                group.create_task(self._watch())
        else:
            text = f"Serving the new code of {', '.join(apps)}."
            self._lines.notice("code.loaded", text, style="green", apps=list(apps))

    def _report_load_failure(self, message: str, serves: WorkerProcess | None) -> None:
        status_text = (
            "The previous code keeps running." if serves else "Nothing runs until it changes."
        )
        text = f"Not loaded: {message}\n{status_text}"
        self._lines.notice("code.not_loaded", text, style="bold red", reason=message)

    async def _watch(self) -> None:
        async for files in self._watched.changes():
            names = ", ".join(_relative(file) for file in files)
            self._lines.notice("code.changed", f"{names} changed.", style="dim", files=names)
            self._changed.set()

    def _show(self, apps: dict[str, str]) -> None:
        """Write the served apps and the addresses."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        one = next(iter(apps.values())) if len(apps) == 1 else next(iter(apps))
        queues = dict.fromkeys(self._connection.queue(name) for name in apps)
        reload = "when a .py or .env file changes" if self._reload else "no; start it again"
        for row in (
            ("app" if len(apps) == 1 else "apps", ", ".join(apps)),
            *([("page", self._page.url)] if self._page else []),
            ("Temporal", self._server.address),
            ("task queue" if len(queues) == 1 else "task queues", ", ".join(queues)),
            *([("UI", url)] if (url := self._server.ui_url) else []),
            ("store", without_password(self._connection.store_url)),
            ("reloads", reload),
            ("try it", f"durable-adk run {one}"),
            ("stop", "Ctrl-C"),
        ):
            table.add_row(*row)
        plain_console().print(table, "")


def _relative(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
