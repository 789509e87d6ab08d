"""The processes of a run: Temporal server, store, model, workers and clients."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from campaign.links import POSTGRES, Link
from campaign.postgres import Postgres
from campaign.proxy import HOST, FaultProxy
from campaign.run_folder import RunFolder
from campaign.scale import SCALES, Scale, Size
from campaign.spawner import Spawned
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.process import Process
from durable_adk.errors import DurableAdkError
from harness.journal import note

ROOT = Path(__file__).parents[1]
START = 300.0
"""Seconds until a process must be ready; only one that hangs takes as long."""


async def until(condition: Callable[[], bool], patience: float = START) -> bool:
    """Wait until a condition holds; return False if it does not within `patience` seconds."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True


@dataclass(eq=False)
class Supervised:
    """A process that is started again whenever it dies."""

    name: str
    spawner: Path
    program: str
    arguments: list[str]
    log: Path
    process: Spawned | None = None
    ready_mark: str = ""
    for_ever: bool = False
    """Whether it is started again also when it has ended in order."""
    starts: int = 0
    proxy: FaultProxy | None = None
    """Between it and Temporal."""
    spared: bool = False
    """Whether a fault is in progress that another one would invalidate."""
    killed: int = 0
    """The process that was last killed; it may take a moment to be gone."""
    _seen: int = 0

    @property
    def pid(self) -> int:
        """Of the process there is now."""
        return self.process.pid if self.process else 0

    @property
    def ended(self) -> bool:
        """Whether it has ended in order."""
        return self.process is not None and self.process.returncode == 0

    @property
    def alive(self) -> bool:
        """Whether it runs, and has said that it is ready."""
        running = self.process is not None and self.process.returncode is None
        return (
            running
            and not self.spared
            and self.pid != self.killed
            and (not self.ready_mark or self.ready_mark in self._said())
        )

    async def keep(self) -> None:
        """Start it; and again, until cancelled or until it has ended in order."""
        while True:
            self._seen = self.log.stat().st_size if self.log.exists() else 0
            self.process = await Spawned.start(self.spawner, self.program, self.arguments, self.log)
            self.starts += 1
            code = await self.process.wait()
            if self.ready_mark and self.ready_mark in self._said():
                note(RunFolder(self.log.parent).ends, name=self.name, ended=self.pid, code=code)
            if code == 0 and not self.for_ever:
                return

    async def end(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process is not None:
            await self.process.terminate()

    def _said(self) -> str:
        if not self.log.exists():
            return ""  # it has been forked, and has not come to its log yet
        with self.log.open("rb") as file:
            file.seek(self._seen)
            return file.read().decode(errors="replace")


@dataclass(eq=False)
class Temporal:
    """The Temporal server, which can be killed and started again on its file and port."""

    folder: Path
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    server: TemporalServer | None = None

    async def start(self) -> None:
        """Start it, on the same port after a kill."""
        port = self.port if self.server else None
        starting = TemporalServer.start(data_dir=self.folder, port=port, headless=True)
        self.server = await self._stack.enter_async_context(starting)

    async def kill(self) -> None:
        """SIGKILL."""
        if self.server is not None:
            await self.server.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send the server's own process a signal, unless it is gone."""
        if self.server is not None:
            with suppress(ProcessLookupError):
                os.kill(self.server.pid, number)

    async def close(self) -> None:
        """End it, and all that were killed before it."""
        await self._stack.aclose()

    @property
    def port(self) -> int:
        """Of the address."""
        return int(self.address.rpartition(":")[2])

    @property
    def address(self) -> str:
        """Host and port, the same after a restart."""
        return self.server.address if self.server else ""


@dataclass
class Cluster:
    """The processes that the fault injector acts on."""

    folder: RunFolder
    store: str
    seed: int
    size: Size
    temporal: Temporal
    postgres: Postgres | None = None
    shared: dict[Link, FaultProxy] = field(default_factory=dict[Link, FaultProxy])
    """On the links of all workers, or all clients, together."""
    workers: list[Supervised] = field(default_factory=list[Supervised])
    clients: list[Supervised] = field(default_factory=list[Supervised])

    @property
    def scale(self) -> Scale:
        """How many processes there are."""
        return SCALES[self.size]

    @property
    def sqlite(self) -> Path:
        """The store's file, if it is one."""
        return self.folder.path / "sessions.db"

    @property
    def spawner(self) -> Path:
        """Where the spawner listens."""
        return self.folder.path / "spawner"

    @property
    def model(self) -> Path:
        """The file that says where the model is."""
        return self.folder.path / "model.url"

    def url(self, link: Link | None = None) -> str:
        """The store's URL: over a link, or None, past all proxies."""
        if self.postgres is None:
            return f"sqlite:///{self.sqlite}"
        return self.postgres.url(self.shared[link].port if link else None)

    def proxies(self, link: Link) -> list[FaultProxy]:
        """Those on a link: one for each process, or one for all."""
        ends = {Link.WORKER_TEMPORAL: self.workers, Link.CLIENT_TEMPORAL: self.clients}
        if link not in ends:
            return [self.shared[link]]
        return [process.proxy for process in ends[link] if process.proxy is not None]


@asynccontextmanager
async def running(folder: RunFolder, store: str, seed: int, size: Size) -> AsyncGenerator[Cluster]:
    """The cluster without workers and clients; all its processes end with the block."""
    async with AsyncExitStack() as stack:
        temporal = Temporal(folder.path / "temporal")
        stack.push_async_callback(temporal.close)
        await temporal.start()
        cluster = Cluster(folder, store, seed, size, temporal)
        if store == POSTGRES:
            cluster.postgres = Postgres(folder.path / "postgres")
            stack.push_async_callback(cluster.postgres.stop)
            await cluster.postgres.start()
            for link in (Link.WORKER_STORE, Link.CLIENT_STORE):
                cluster.shared[link] = await _proxy(stack, cluster.postgres.port)
        await _spawner(stack, cluster)
        await stack.enter_async_context(kept([_program(cluster, "model", "model")]))
        await _put_before_the_model(stack, cluster)
        yield cluster


async def _put_before_the_model(stack: AsyncExitStack, cluster: Cluster) -> None:
    """Route all model calls through a proxy."""
    if not await until(lambda: cluster.model.exists() and bool(cluster.model.read_text())):
        raise DurableAdkError("The model's stub has not started.")
    host, _, port = cluster.model.read_text().rpartition(":")
    proxy = cluster.shared[Link.WORKER_MODEL] = await _proxy(stack, int(port))
    cluster.model.write_text(f"{host}:{proxy.port}")


@asynccontextmanager
async def with_workers(cluster: Cluster) -> AsyncGenerator[None]:
    """Workers, kept alive until the end of the block."""
    async with AsyncExitStack() as stack:
        numbers = range(cluster.scale.workers)
        cluster.workers = [await _worker(stack, cluster, number) for number in numbers]
        await stack.enter_async_context(kept(cluster.workers))
        if not await until(lambda: all(worker.alive for worker in cluster.workers)):
            raise DurableAdkError(f"The workers have not started; see {cluster.workers[0].log}.")
        yield


@asynccontextmanager
async def with_clients(cluster: Cluster) -> AsyncGenerator[None]:
    """Workers and clients, kept alive until the end of the block."""
    async with with_workers(cluster), AsyncExitStack() as stack:
        slots = range(cluster.scale.clients)
        cluster.clients = [await _client(stack, cluster, slot) for slot in slots]
        async with kept(cluster.clients):
            yield


async def _worker(stack: AsyncExitStack, cluster: Cluster, number: int) -> Supervised:
    """A worker with a network of its own."""
    proxy = await _proxy(stack, cluster.temporal.port)
    through = (f"{HOST}:{proxy.port}", cluster.url(Link.WORKER_STORE))
    worker = _program(cluster, f"worker-{number}", "worker", *through, ready="ready\n")
    worker.proxy, worker.for_ever = proxy, True
    return worker


async def _client(stack: AsyncExitStack, cluster: Cluster, slot: int) -> Supervised:
    """A client with a network of its own."""
    proxy = await _proxy(stack, cluster.temporal.port)
    through = (f"{HOST}:{proxy.port}", cluster.url(Link.CLIENT_STORE))
    chosen = (str(slot), str(cluster.seed), cluster.size)
    client = _program(cluster, f"client-{slot}", "client", *through, *chosen)
    client.proxy = proxy
    return client


async def _proxy(stack: AsyncExitStack, port: int) -> FaultProxy:
    proxy = FaultProxy(port)
    await proxy.start()
    stack.push_async_callback(proxy.close)
    return proxy


async def _spawner(stack: AsyncExitStack, cluster: Cluster) -> None:
    log = cluster.folder.path / "spawner.log"
    command = [sys.executable, "-m", "campaign.spawner", cluster.spawner]
    await stack.enter_async_context(await Process.start(command, log=log, cwd=ROOT))
    if not await until(cluster.spawner.exists):
        raise DurableAdkError(f"The spawner has not started; see {log}.")


def _program(
    cluster: Cluster, name: str, program: str, *arguments: str, ready: str = ""
) -> Supervised:
    path = cluster.folder.path
    arguments = (str(path), *arguments)
    log = path / f"{name}.log"
    return Supervised(name, cluster.spawner, program, list(arguments), log, ready_mark=ready)


@asynccontextmanager
async def kept(processes: list[Supervised]) -> AsyncGenerator[None]:
    """Keep processes alive until the end of the block."""
    keepers = [asyncio.create_task(process.keep()) for process in processes]
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        with suppress(ProcessLookupError):
            await asyncio.gather(*(process.end() for process in processes))
