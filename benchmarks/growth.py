"""What a worker keeps of each invocation, and how many calls one costs: no clock is asked.

``python -m benchmarks.growth`` runs 5,000 tool turns. Another process starts the turns, so that
all calls counted here are the worker's. It exits with 1 if the worker has grown.
"""

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from rich.console import Console
from temporalio.client import Client

from benchmarks.agent import apps
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker

QUEUE, COUNTED = "bench-growth", "bench-calls"
"""Two workers, because counting calls takes several times as long as making them."""
WARM = 50
"""Turns before the size is first taken: then all is imported, and small caches are full."""
WINDOW, WINDOWS = 3, 10
"""Turns whose calls are counted together, and how often. The least counts: what a worker does once
a second comes on top, and on a busy machine a turn takes longer."""
ANSWER = "= "
"""Begins the lines with which a worker answers."""
KEPT = 0.5
"""Objects of a type that a turn may leave: pools of threads and connections grow to their size."""


class Size(NamedTuple):
    """How large a process is, in counts."""

    finders: int
    """Entries of `sys.meta_path`."""
    modules: int
    objects: dict[str, int]
    """By type, those that the garbage collector knows."""


class Grown(NamedTuple):
    """What a worker was after some turns and after many more."""

    early: Size
    late: Size
    turns: int
    """Between the two."""

    def left(self) -> dict[str, float]:
        """What each turn has left, by type, if that is more than a cache explains."""
        counts = {**self.late.objects, "finder": self.late.finders, "module": self.late.modules}
        before = {**self.early.objects, "finder": self.early.finders, "module": self.early.modules}
        each = {kind: (n - before.get(kind, 0)) / self.turns for kind, n in counts.items()}
        return {kind: share for kind, share in each.items() if share > KEPT}


class Calls:
    """Counts the calls of this thread and of all that start after it."""

    def __init__(self) -> None:
        self.count = 0
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, _frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


def _size() -> Size:
    gc.collect()
    # sqlite3 keeps dead references to the last 200 cursors of each connection.
    living = (one for one in gc.get_objects() if not _is_dead(one))
    kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in living)
    return Size(len(sys.meta_path), len(sys.modules), dict(kinds))


def _is_dead(one: object) -> bool:
    return type(one) is weakref.ReferenceType and one() is None


async def _serve(address: str, queue: str, store: str) -> None:
    """Run a worker that says, for each line it is sent, how many calls it has made, or its size."""
    calls = Calls() if queue == COUNTED else None
    client, sessions = await connect(address), SqliteSessionService(store)
    # A cache that fills is no leak, but nothing would tell them apart.
    options = WorkerOptions(task_queue=queue, limits=Limits(session_cache_bytes=0))
    async with worker(client, apps=apps(), session_service=sessions, options=options):
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(ANSWER + json.dumps(calls.count if calls else _size()), flush=True)
    await sessions.close()


class _Worker:
    """The process of `_serve`, and turns for it."""

    def __init__(self, child: asyncio.subprocess.Process, client: Client, queue: str) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._stdin, self._stdout = child.stdin, child.stdout
        self._client, self._queue = client, queue

    async def ready(self) -> None:
        await self._line("ready")

    async def ask(self) -> Any:
        self._stdin.write(b"\n")
        return json.loads((await self._line(ANSWER)).removeprefix(ANSWER))

    async def _line(self, start: str) -> str:
        """The next line that begins so; the SDK writes warnings there, too."""
        while not (line := (await self._stdout.readline()).decode()).startswith(start):
            if not line:
                raise RuntimeError("The worker has ended.")
        return line

    async def turns(self, number: int) -> None:
        """Run turns one after the other, each in a session of its own."""
        for _ in range(number):
            name = uuid.uuid4().hex
            request = {"app": "bench", "user": "u", "session": name, "message": "1"}
            await self._client.execute_workflow(
                "Invocation", request, id=name, task_queue=self._queue
            )


@asynccontextmanager
async def _worker(client: Client, address: str, queue: str) -> AsyncGenerator[_Worker]:
    with tempfile.TemporaryDirectory() as folder:
        command = ("-m", "benchmarks.growth", "--serve", address, "--queue", queue, "--store")
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, f"{folder}/sessions.db"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=2**24,
        )
        try:
            one = _Worker(child, client, queue)
            await one.ready()
            yield one
        finally:
            child.kill()
            await child.wait()


async def count_calls(address: str) -> int:
    """Return the Python and C calls of a tool turn in the worker, the least of some windows."""
    async with _worker(await connect(address), address, COUNTED) as one:
        await one.turns(WINDOW)
        counts = [await one.ask()]
        for _ in range(WINDOWS):
            await one.turns(WINDOW)
            counts.append(await one.ask())
    return min(after - before for before, after in pairwise(counts)) // WINDOW


async def grow(address: str, turns: int) -> Grown:
    """Run `WARM` turns and then so many more on a worker."""
    async with _worker(await connect(address), address, QUEUE) as one:
        await one.turns(WARM)
        early = Size(*await one.ask())
        await one.turns(turns)
        return Grown(early, Size(*await one.ask()), turns)


async def measure(turns: int) -> tuple[int, Grown]:
    """Measure both on a server of their own."""
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder), headless=True) as server:
            return await count_calls(server.address), await grow(server.address, turns)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="ADDRESS")
    parser.add_argument("--queue")
    parser.add_argument("--store")
    parser.add_argument("--turns", type=int, default=5_000)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(_serve(arguments.serve, arguments.queue, arguments.store))
        return
    calls, grown = asyncio.run(measure(arguments.turns))
    console = Console()
    console.print(f"calls of a tool turn: {calls:,}")
    console.print(f"left by each of {grown.turns:,} turns: {grown.left() or 'nothing'}")
    sys.stdout.flush()
    os._exit(1 if grown.left() else 0)  # the SDK may crash at exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
