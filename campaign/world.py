"""All processes of a run: a Temporal server, a store, a model, workers and clients."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from campaign.journals import RunFolder
from campaign.postgres import Postgres
from campaign.proxy import HOST, FaultProxy
from campaign.shape import SHAPES, Shape, Size
from campaign.spawner import Spawned
from durable_adk._process import Process
from durable_adk.embedded import TemporalServer
from durable_adk.errors import DurableAdkError

ROOT = Path(__file__).parents[1]
SQLITE, POSTGRES = "sqlite", "postgres"
STORES = (SQLITE, POSTGRES)
START = 60.0
"""Seconds until a process must be ready."""


async def until(condition: Callable[[], bool], patience: float = START) -> bool:
    """Wait until a condition holds; whether it did within so many seconds."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True


@dataclass(eq=False)
class Kept:
    """A process that is started again whenever it dies."""

    name: str
    spawner: Path
    program: str
    arguments: list[str]
    log: Path
    process: Spawned | None = None
    ready_mark: str = ""
    starts: int = 0
    proxy: FaultProxy | None = None
    """Between it and Temporal."""
    spared: bool = False
    """Whether it is in the middle of a fault that others would spoil."""
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
            if await self.process.wait() == 0:
                return

    async def end(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process is not None:
            await self.process.terminate()

    def _said(self) -> str:
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
        """Start it where it was, or anew."""
        port = self.port if self.server else None
        starting = TemporalServer.start(data_dir=self.folder, port=port, headless=True)
        self.server = await self._stack.enter_async_context(starting)

    async def kill(self) -> None:
        """SIGKILL."""
        if self.server is not None:
            await self.server.kill()

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
class World:
    """What the nemesis acts on."""

    folder: RunFolder
    store: str
    seed: int
    size: Size
    temporal: Temporal
    postgres: Postgres | None = None
    postgres_proxy: FaultProxy | None = None
    workers: list[Kept] = field(default_factory=list[Kept])
    clients: list[Kept] = field(default_factory=list[Kept])

    @property
    def shape(self) -> Shape:
        """How many processes there are."""
        return SHAPES[self.size]

    @property
    def sqlite(self) -> Path:
        """The store's file, if it is one."""
        return self.folder.path / "sessions.db"

    @property
    def spawner(self) -> Path:
        """Where the spawner listens."""
        return self.folder.path / "spawner"

    def url(self, *, proxied: bool = False) -> str:
        """The store's URL, as clients reach it or, through the proxy, as workers do."""
        if self.postgres is None:
            return f"sqlite:///{self.sqlite}"
        through = self.postgres_proxy.port if proxied and self.postgres_proxy else None
        return self.postgres.url(through)


@asynccontextmanager
async def running(folder: RunFolder, store: str, seed: int, size: Size) -> AsyncGenerator[World]:
    """The world without workers and clients; all its processes end with the block."""
    async with AsyncExitStack() as stack:
        temporal = Temporal(folder.path / "temporal")
        stack.push_async_callback(temporal.close)
        await temporal.start()
        world = World(folder, store, seed, size, temporal)
        if store == POSTGRES:
            world.postgres = Postgres(folder.path / "postgres")
            stack.push_async_callback(world.postgres.stop)
            await world.postgres.start()
            world.postgres_proxy = await _proxy(stack, world.postgres.port)
        await _spawner(stack, world)
        await stack.enter_async_context(kept([_program(world, "model", "model")]))
        if not await until((folder.path / "model.url").exists):
            raise DurableAdkError("The model's stub has not started.")
        yield world


@asynccontextmanager
async def staffed(world: World) -> AsyncGenerator[None]:
    """Workers and clients, kept alive until the end of the block."""
    async with AsyncExitStack() as stack:
        numbers = range(world.shape.workers)
        world.workers = [await _worker(stack, world, number) for number in numbers]
        await stack.enter_async_context(kept(world.workers))
        if not await until(lambda: all(worker.alive for worker in world.workers)):
            raise DurableAdkError(f"The workers have not started; see {world.workers[0].log}.")
        direct, chosen = (world.temporal.address, world.url()), (str(world.seed), world.size)
        world.clients = [
            _program(world, f"client-{slot}", "client", *direct, str(slot), *chosen)
            for slot in range(world.shape.clients)
        ]
        async with kept(world.clients):
            yield


async def _worker(stack: AsyncExitStack, world: World, number: int) -> Kept:
    """A worker with a network of its own."""
    proxy = await _proxy(stack, world.temporal.port)
    through = (f"{HOST}:{proxy.port}", world.url(proxied=True))
    worker = _program(world, f"worker-{number}", "worker", *through, ready="ready\n")
    worker.proxy = proxy
    return worker


async def _proxy(stack: AsyncExitStack, port: int) -> FaultProxy:
    proxy = FaultProxy(port)
    await proxy.start()
    stack.push_async_callback(proxy.close)
    return proxy


async def _spawner(stack: AsyncExitStack, world: World) -> None:
    log = world.folder.path / "spawner.log"
    command = [sys.executable, "-m", "campaign.spawner", world.spawner]
    await stack.enter_async_context(await Process.start(command, log=log, cwd=ROOT))
    if not await until(world.spawner.exists):
        raise DurableAdkError(f"The spawner has not started; see {log}.")


def _program(world: World, name: str, program: str, *arguments: str, ready: str = "") -> Kept:
    path = world.folder.path
    arguments = (str(path), *arguments)
    log = path / f"{name}.log"
    return Kept(name, world.spawner, program, list(arguments), log, ready_mark=ready)


@asynccontextmanager
async def kept(processes: list[Kept]) -> AsyncGenerator[None]:
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
