"""The ways a conversation is run."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

from temporalio.client import Client

from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.memory import InMemoryMemoryService
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SqliteSessionService
from harness.forked_worker import ForkedWorker
from tests.scenarios import worker_main
from tests.scenarios.ledger import Ledger
from tests.scenarios.outcome import Conversation, Outcome
from tests.scenarios.scenario import Scenario
from tests.scenarios.stores import shared_stores
from tests.scenarios.worker_main import Order
from tests.support.preload import PRELOAD
from tests.support.seeds import KILLS

LAST_BREATH = 100
"""Seconds that a worker which is to be killed may outlive its conversation."""


class Mode(Protocol):
    """A way to run conversations, while its context is open."""

    at_once: int
    """How many may run side by side."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def conversation(
        self, scenario: Scenario, length: int
    ) -> AbstractAsyncContextManager[Conversation]:
        """The scenario, ready to be played; `length` is the number of events it has in u/s."""
        ...


class InProcess:
    """The loop in this process, sessions in memory: what the others are compared with."""

    at_once = 8

    def __init__(self, folder: Path) -> None:
        self._ledger = Ledger(folder / "ledger")
        self._sessions = InMemorySessionService()
        self._artifacts = InMemoryArtifactService()
        self._memory = InMemoryMemoryService()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sessions.close()

    @asynccontextmanager
    async def conversation(self, scenario: Scenario, length: int) -> AsyncGenerator[Conversation]:
        """See `Mode`."""
        del length
        runner = Runner(
            app=self._ledger.noting(scenario.app()),
            session_service=self._sessions,
            artifact_service=self._artifacts,
            memory_service=self._memory,
            auto_create_session=True,
        )
        async with runner:
            yield Conversation(scenario, runner, self._ledger, "local")


class OnTemporal:
    """Clients in this process, workers in others, which live as long as the mode.

    Args:
        world: The server, and the folder that all processes share.
        scenarios: Those that will be played.
        cache: How many workflows the workers keep. With 0 a worker has one conversation at a time:
            without a cache the SDK lets the tasks of a second workflow time out.
        history: See `Order`.
        steps: See `Order`.
    """

    def __init__(
        self,
        world: "World",
        scenarios: Sequence[Scenario],
        *,
        cache: int,
        history: int = 4000,
        steps: int = 1,
    ) -> None:
        self._history = history
        self._steps = steps
        self.at_once = 8 if cache else 2
        self._world = world
        self._scenarios = scenarios
        self._cache = cache
        self._workers: list[ForkedWorker] = []
        self._queues: deque[str] = deque()

    async def __aenter__(self) -> Self:
        await self._world.open()
        workers = 1 if self._cache else self.at_once
        names = tuple(scenario.name for scenario in self._scenarios)
        orders = [
            Order(
                scenarios=names,
                queue=f"{self._world.name}-{number}",
                cache=self._cache,
                history=self._history,
                steps=self._steps,
            )
            for number in range(workers)
        ]
        self._workers = [self._world.start_worker() for _ in orders]
        for worker, order in zip(self._workers, orders, strict=True):
            self._queues.extend([order.queue] * (self.at_once // workers))
            self._world.replayable(order.queue, self._scenarios)
            await worker.obey(order)
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()
        await self._world.close()

    @asynccontextmanager
    async def conversation(self, scenario: Scenario, length: int) -> AsyncGenerator[Conversation]:
        """See `Mode`."""
        del length
        queue = self._queues.popleft()
        async with self._world.conversation(scenario, queue) as conversation:
            yield conversation
        self._queues.append(queue)


class Killed:
    """A worker process for each scenario, killed after an event; a second one takes over.

    The second one is there before the kill, and serves the next scenario in its turn.
    """

    at_once = 8

    def __init__(self, world: "World", *, seed: int, steps: int = 1) -> None:
        self._world = world
        self._seed = seed
        self._steps = steps
        self._idle: deque[ForkedWorker] = deque()

    async def __aenter__(self) -> Self:
        await self._world.open()
        self._idle.extend(self._world.start_worker() for _ in range(2 * self.at_once))
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().close()
        await self._world.close()

    @asynccontextmanager
    async def conversation(self, scenario: Scenario, length: int) -> AsyncGenerator[Conversation]:
        """See `Mode`."""
        queue = f"{self._world.name}-{scenario.name}"
        self._world.replayable(queue, [scenario])
        doom = self._doom(scenario, queue, length)
        async with self._world.conversation(scenario, queue) as talk, self._takeover(doom, talk):
            yield talk

    def _doom(self, scenario: Scenario, queue: str, length: int) -> Order:
        """When the first worker dies; the same for the same seed and scenario."""
        seed = self._seed or KILLS.get(scenario.name, 0)
        dice = random.Random(f"{seed}/{scenario.name}")
        return Order(
            scenarios=(scenario.name,),
            queue=queue,
            steps=self._steps,
            dies_after=dice.randint(1, length),
            delay=dice.choice([0, 0.004, 0.02, 0.1]),
        )

    @asynccontextmanager
    async def _takeover(self, doom: Order, talk: Conversation) -> AsyncGenerator[None]:
        first, second = self._idle.popleft(), self._idle.popleft()
        await first.obey(doom)

        async def succeed() -> None:
            await first.end()
            talk.interrupted.append(f"after event {doom.dies_after} and {doom.delay:g} s")
            await second.obey(replace(doom, dies_after=None, delay=0))

        succession = asyncio.create_task(succeed())
        try:
            yield
            async with asyncio.timeout(LAST_BREATH):
                await asyncio.shield(succession)  # after the last event, it may be about to die
        finally:
            succession.cancel()
            await asyncio.gather(succession, return_exceptions=True)
            first.close()
            self._idle.append(second)
            self._idle.append(self._world.start_worker())


class World:
    """What the processes of one mode share: the server, the stores, the ledger."""

    def __init__(self, client: Client, address: str, folder: Path) -> None:
        self._client = client
        self._address = address
        self._folder = folder
        self._ledger = Ledger(folder / "ledger")
        self._sessions = SqliteSessionService(folder / "sessions.db")

    @property
    def name(self) -> str:
        """No other mode's world has it."""
        return self._folder.name

    async def open(self) -> None:
        """Make the store, which several processes will find."""
        await self._sessions.prepare()

    async def close(self) -> None:
        """Let go of it."""
        await self._sessions.close()

    def start_worker(self) -> ForkedWorker:
        """A new worker process, forked from one that has imported everything."""
        return ForkedWorker(worker_main.main, self._address, self._folder, PRELOAD)

    def replayable(self, queue: str, scenarios: Sequence[Scenario]) -> None:
        """Serve the apps in this process too, for the replays at the end."""
        serve(queue, AppRegistry([self._ledger.noting(scenario.app()) for scenario in scenarios]))

    @asynccontextmanager
    async def conversation(self, scenario: Scenario, queue: str) -> AsyncGenerator[Conversation]:
        """The scenario, played by whoever listens on the queue."""
        runner = Runner(
            app=self._ledger.noting(scenario.app()),
            session_service=self._sessions,
            client=self._client,
            task_queue=queue,
            auto_create_session=True,
            **shared_stores(self._folder),
        )
        async with runner:
            yield Conversation(scenario, runner, self._ledger, self.name)


async def played(mode: Mode, scenario: Scenario, length: int) -> Outcome:
    """What a scenario comes to in a mode."""
    async with mode.conversation(scenario, length) as conversation:
        return await conversation.play()
