"""Worker processes that serve one test case after another."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.forked_worker import ForkedWorker
from tests.support import worker_main
from tests.support.preload import PRELOAD
from tests.support.waiting import PATIENCE
from tests.support.worker_main import LEAVE, Order


@dataclass(kw_only=True)
class WorkerPool:
    """Worker processes that go from case to case; those that died are replaced."""

    address: str
    folder: Path
    idle: deque[ForkedWorker] = field(default_factory=deque[ForkedWorker])

    @asynccontextmanager
    async def serving(self, order: Order, count: int) -> AsyncGenerator[list[ForkedWorker]]:
        """Have so many of them carry out an order; at the end each has ended all of its steps.

        They are replaced if the block raises: their steps may still run.
        """
        left = [False] * count
        workers = [self.idle.popleft() if self.idle else self._start() for _ in range(count)]
        try:
            ready = await asyncio.gather(*(worker.obey(order) for worker in workers))
            assert all(ready), f"a worker died at its start; see {self.folder}/workers.log"
            yield workers
            async with asyncio.timeout(PATIENCE):
                left = await asyncio.gather(*(worker.obey(LEAVE) for worker in workers))
        finally:
            for worker, obeyed in zip(workers, left, strict=True):
                self.idle.append(worker if obeyed else self._replaced(worker))

    def close(self) -> None:
        """End them all."""
        while self.idle:
            self.idle.pop().close()

    def _start(self) -> ForkedWorker:
        return ForkedWorker(worker_main.main, self.address, self.folder, PRELOAD)

    def _replaced(self, worker: ForkedWorker) -> ForkedWorker:
        worker.close()
        return self._start()
