"""The systems that are compared, each with a worker process of its own on one Temporal server."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from temporalio.client import Client
from temporalio.service import RPCError

from benchmarks.task import ANSWER, at_a_time, message

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv" / "peers" / "bin" / "python"
"""Where the others are installed: they want versions of their own (``make bench``)."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One of them."""

    name: str
    module: str
    """The program of its worker, which gets the server's address, a task queue, and a store."""
    workflow: str | None = None
    """The workflow type of a turn; None: the worker itself runs turns, without Temporal."""
    app: str = "bench"
    """Of ours (benchmarks/agent.py)."""
    on_postgres: bool = False
    python: Path = Path(sys.executable)


_OURS = {"module": "benchmarks.ours", "workflow": "Invocation"}
FLOOR = System(name="FLOOR", module="benchmarks.floor", workflow="Floor")
OURS = System(name="durable_adk", **_OURS)
SYSTEMS = (
    FLOOR,
    OURS,
    System(name="durable_adk, 20 steps an activity", **_OURS, app="batch"),
    System(name="durable_adk on PostgreSQL", **_OURS, on_postgres=True),
    System(
        name="temporalio-google-adk",
        module="benchmarks.temporal_plugin",
        workflow="Plugin",
        python=PEERS,
    ),
    System(name="google-adk's Runner", module="benchmarks.google_runner", python=PEERS),
)


class Running:
    """A system whose worker is ready."""

    def __init__(
        self, system: System, child: asyncio.subprocess.Process, client: Client, queue: str
    ) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self.system, self._client, self.queue = system, client, queue
        self._stdin, self._stdout = child.stdin, child.stdout
        self._process = psutil.Process(child.pid)
        self.last: str | None = None
        """The id of the last workflow."""
        self.repeated = 0
        """Turns that have failed and were run again."""

    async def turns(self, number: int, most: int = 1, steps: int = 1) -> None:
        """Run turns with so many tool calls, each in a session of its own, some at a time."""
        if self.system.workflow is None:
            await self._ask([number, most, steps])
        else:
            await at_a_time(number, most, lambda: self.turn(uuid.uuid4().hex, steps))

    async def turn(self, session: str, steps: int = 1) -> None:
        """Run a turn of a system on Temporal."""
        assert self.system.workflow is not None
        request = {"app": self.system.app, "user": "u", "session": session}
        name = uuid.uuid4().hex
        request |= {"message": message(steps)}
        handle = await self._client.start_workflow(
            self.system.workflow, request, id=name, task_queue=self.queue
        )
        while True:
            with suppress(RPCError):  # a connection of a busy server may end
                await handle.result()
                break
        self.last = name

    async def cpu(self) -> float:
        """Return the seconds of CPU that the worker has used."""
        return await self._ask([])

    def memory(self) -> float:
        """Return how much memory the worker has now, in MB."""
        return self._process.memory_info().rss / 1e6

    async def ready(self) -> None:
        """Wait for the worker."""
        await self._line()

    async def _ask(self, arguments: list[int]) -> float:
        self._stdin.write(json.dumps(arguments).encode() + b"\n")
        seconds, self.repeated = json.loads(await self._line())
        return seconds

    async def _line(self) -> str:
        while not (line := (await self._stdout.readline()).decode()).startswith(ANSWER):
            if not line:
                raise RuntimeError(f"The worker of {self.system.name} has ended.")
        return line.removeprefix(ANSWER)


@asynccontextmanager
async def running(
    system: System, address: str, store: str, client: Client
) -> AsyncGenerator[Running]:
    """Start the worker of a system, and end it with its input.

    Args:
        system: What to run.
        address: Of the Temporal server.
        store: A file that does not exist yet, or the URL of an empty database.
        client: Of the same server.
    """
    queue = uuid.uuid4().hex
    child = await asyncio.create_subprocess_exec(
        *(str(system.python), "-m", system.module, address, queue, store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        one = Running(system, child, client, queue)
        await one.ready()
        yield one
    finally:
        child.kill()  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)
        await child.wait()
