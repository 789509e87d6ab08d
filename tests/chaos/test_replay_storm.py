"""Many runs at once that have to be replayed, because all workers were killed (F40)."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from temporalio.client import Client

from durable_adk.embedded import TemporalServer
from durable_adk.embedded.process import Process
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from tests.support.chaos_apps import Traces
from tests.support.processes import ROOT, until
from tests.support.scripts import gist
from tests.support.storm_apps import LOOKS, storm_app

RUNS, BATCH = 40, 20
INVOCATION = "run"
LONG = [
    *["asker call look", "asker response look"] * LOOKS,
    "asker call patient",
    "asker response patient",
    "asker text Done.",
]


@dataclass
class Hall:
    """A store, a task queue, and clients."""

    folder: Path
    client: Client
    address: str
    queue: str = field(default_factory=lambda: f"storm-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        self.sessions = SqliteSessionService(self.folder / "sessions.db")
        self.traces = Traces(self.folder)

    @property
    def logs(self) -> str:
        """What the workers have said."""
        return "".join(path.read_text() for path in self.folder.glob("worker-*.log"))

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Process]:
        """A worker process that is ready."""
        log = self.folder / f"worker-{uuid.uuid4().hex}.log"
        module = "tests.support.storm_worker_main"
        command = [sys.executable, "-m", module, self.address, self.queue, self.folder]
        async with await Process.start(command, log=log, cwd=ROOT, grace=0.5) as process:
            await until(lambda: "ready\n" in log.read_text() or process.returncode is not None)
            assert process.returncode is None, log.read_text()
            yield process

    async def run(self, session: str) -> list[str]:
        """Send a message, and what its invocation comes to in a few words."""
        async with Runner(
            app=storm_app(self.folder),
            session_service=self.sessions,
            client=self.client,
            task_queue=self.queue,
            auto_create_session=True,
        ) as runner:
            events = runner.run_async(
                user_id=self.queue, session_id=session, new_message="go", invocation_id=INVOCATION
            )
            return [gist(event) async for event in events]


@pytest.fixture
async def hall(tmp_path: Path, client: Client, server: TemporalServer) -> AsyncIterator[Hall]:
    """An empty one."""
    made = Hall(tmp_path, client, server.address)
    yield made
    await made.sessions.close()


async def test_a_storm_of_replays_ends_every_run_as_undisturbed(hall: Hall) -> None:
    """F40, I11: all workers are killed; those that take their place replay all open runs at once.

    None is taken for deadlocked, which would have it fail its task again and again.
    """
    async with hall.worker() as one, hall.worker() as other:
        runs: list[asyncio.Task[list[str]]] = []
        for start in range(0, RUNS, BATCH):
            names = (f"s{number}" for number in range(start, start + BATCH))
            runs += [asyncio.create_task(hall.run(name)) for name in names]
            await until(lambda: len(hall.traces.runs("patient")) == len(runs), 120)  # noqa: B023  # awaited here
        await asyncio.gather(one.kill(), other.kill())
    hall.traces.open_gate()
    async with hall.worker(), hall.worker(), asyncio.timeout(180):
        outcomes = await asyncio.gather(*runs)
    assert outcomes == [LONG] * RUNS
    assert "TMPRL1101" not in hall.logs
    assert "deadlock" not in hall.logs.lower()
