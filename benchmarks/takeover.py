"""How long an invocation stands still when its worker dies: ``python -m benchmarks.takeover``.

Each sample kills a worker process (SIGKILL) that is doing a certain thing while another one stands
by, with the default settings, and takes the time until the invocation continues. Printed are counts
and ratios of the bound in docs/know/durability.md; seconds mean little on a machine that does other
things too, but these are timeouts, which a slower machine does not make longer by much.

``--task-timeout 3`` sets another workflow task timeout, and ``--stress`` counts the workflow tasks
that time out although nobody has died, with replays of long histories on a machine that is busy.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from durable_adk.client import connect, invocations
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.process import Process
from tests.support.matrix_apps import LONG
from tests.support.matrix_cases import Scene
from tests.support.matrix_runs import Place
from tests.support.matrix_takeover import SITUATIONS, Situation, Stage, Times, bound
from tests.support.worker_pool import WorkerPool


class Bench:
    """Takes samples side by side."""

    def __init__(self, client: Client, pool: WorkerPool, folder: Path, at_once: int) -> None:
        self._client = client
        self._crew = pool
        self._folder = folder
        self._turn = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def stage(self) -> AsyncGenerator[Stage]:
        """Where one sample is taken."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        store = f"sqlite:///{folder}/sessions.db"
        place = Place(folder=folder, client=self._client, address=self._crew.address, store=store)
        async with self._turn, AsyncExitStack() as stack:
            stack.push_async_callback(place.sessions.close)
            yield Stage(self._crew, place, stack)

    async def samples(self, situation: Situation, count: int) -> dict[str, list[float]]:
        """A situation's times, so many of each."""

        async def sample() -> Times:
            async with self.stage() as stage:
                return await situation(stage)

        taken = await asyncio.gather(*(sample() for _ in range(count)))
        return {what: sorted(times[what] for times in taken) for what in taken[0]}

    async def timeouts(self, tasks: int) -> tuple[int, int]:
        """Of long runs without a cache: workflow tasks that timed out, and all of them."""

        async def run() -> tuple[int, int]:
            async with self.stage() as stage:
                order = stage.place.order(Scene(LONG), cache=0)
                await stage.stack.enter_async_context(self._crew.serving(order, 1))
                await stage.run(LONG).end()
                history = await stage.place.workflow(LONG).fetch_history()
                kinds = [event.event_type for event in history.events]
                started = kinds.count(EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED)
                return kinds.count(EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT), started

        counts = await asyncio.gather(*(run() for _ in range(tasks)))
        return sum(lost for lost, _ in counts), sum(started for _, started in counts)


def row(what: str, times: Sequence[float], limit: float) -> list[str]:
    """How a situation's times are told."""
    within = sum(taken <= limit for taken in times)
    cuts = [statistics.median(times), times[int(0.95 * (len(times) - 1) + 0.5)], times[-1]]
    return [
        what,
        f"{within} of {len(times)}",
        f"{limit:g}",
        *(f"{cut / limit:.2f}" for cut in cuts),
    ]


async def measure(bench: Bench, kills: int, names: Sequence[str], task_timeout: float) -> None:
    """Take all samples, and print them as they come."""
    table = Table("killed", "within", "bound, s", "p50/bound", "p95/bound", "max/bound")
    for situation in SITUATIONS:
        if names and situation.__name__ not in names:
            continue
        for what, times in (await bench.samples(situation, kills)).items():
            table.add_row(*row(what, times, bound(what, task_timeout)))
    Console(width=100).print(table)


async def stress(bench: Bench, runs: int, busy: int) -> None:
    """Count the wrong timeouts while other processes are busy."""
    spin = [sys.executable, "-c", "while True: pass"]
    async with AsyncExitStack() as stack:
        for _ in range(busy):
            log = Path(os.devnull)
            await stack.enter_async_context(await Process.start(spin, log=log, grace=0))
        lost, started = await bench.timeouts(runs)
    print(f"{lost} of {started} workflow tasks timed out, with {busy} busy processes")


async def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="per situation")
    parser.add_argument("--only", nargs="*", default=[], help="names of situations")
    parser.add_argument("--at-once", type=int, default=6, help="samples at a time")
    parser.add_argument("--task-timeout", type=float, default=None, help="seconds")
    parser.add_argument("--stress", type=int, default=None, metavar="BUSY", help="busy processes")
    options = parser.parse_args()
    if options.task_timeout:
        invocations.TASK_TIMEOUT = timedelta(seconds=options.task_timeout)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        async with TemporalServer.start(data_dir=folder / "temporal", headless=True) as server:
            pool = WorkerPool(address=server.address, folder=folder)
            bench = Bench(await connect(server.address), pool, folder, options.at_once)
            try:
                if options.stress is not None:
                    await stress(bench, options.kills, options.stress)
                else:
                    seconds = invocations.TASK_TIMEOUT.total_seconds()
                    await measure(bench, options.kills, options.only, seconds)
            finally:
                pool.close()


if __name__ == "__main__":
    asyncio.run(main())
