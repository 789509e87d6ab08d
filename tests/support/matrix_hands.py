"""Worker processes that are forked from one that has imported everything."""

import asyncio
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import matrix_worker
from tests.support.matrix_worker import LEAVE, Order

PATIENCE = 30.0
"""Seconds until a worker has ended its steps."""


class Hand:
    """A worker process."""

    def __init__(self, address: str, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.scenarios.preload", "tests.support.matrix_worker"])
        self._orders, theirs = context.Pipe()
        self._process = context.Process(
            target=matrix_worker.main, args=(theirs, address, folder), daemon=True
        )
        self._process.start()
        theirs.close()
        self.dead = False
        """Whether it was found to have ended."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    async def obey(self, order: Order | str) -> bool:
        """Have it carry an order out; False: it has died."""
        try:
            self._orders.send(order)
            await _readable(self._orders.fileno())
            self._orders.recv()
        except (EOFError, OSError):
            self.dead = True
        return not self.dead

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.alive:
            os.kill(self.pid, number)

    async def end(self) -> None:
        """Wait until it has ended."""
        await _readable(self._process.sentinel)

    def close(self) -> None:
        """End it, if it has not."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._orders.close()


@dataclass(kw_only=True)
class Crew:
    """Worker processes that go from case to case; those that died are replaced."""

    address: str
    folder: Path
    idle: deque[Hand] = field(default_factory=deque[Hand])

    @asynccontextmanager
    async def serving(self, order: Order, count: int) -> AsyncGenerator[list[Hand]]:
        """So many of them, carrying an order out; at the end each has ended all of its steps."""
        hands = [self.idle.popleft() if self.idle else self._hire() for _ in range(count)]
        try:
            ready = await asyncio.gather(*(hand.obey(order) for hand in hands))
            assert all(ready), f"a worker died at its start; see {self.folder}/workers.log"
            yield hands
            async with asyncio.timeout(PATIENCE):
                left = await asyncio.gather(*(hand.obey(LEAVE) for hand in hands))
        except BaseException:
            left = [False] * count  # who knows what they are doing
            raise
        finally:
            for hand, obeyed in zip(hands, left, strict=True):
                self.idle.append(hand if obeyed else self._replaced(hand))

    def close(self) -> None:
        """End them all."""
        while self.idle:
            self.idle.pop().close()

    def _hire(self) -> Hand:
        return Hand(self.address, self.folder)

    def _replaced(self, hand: Hand) -> Hand:
        hand.close()
        return self._hire()


async def _readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[None] = loop.create_future()
    loop.add_reader(file, lambda: seen.done() or seen.set_result(None))
    try:
        await seen
    finally:
        loop.remove_reader(file)
