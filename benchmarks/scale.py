"""How throughput grows with workers, and which shared part ends it: ``make bench-scale``.

One Temporal server, one PostgreSQL, and one, two and four worker processes, twice: with workers
that may run few steps at a time, as when their memory or a model's quota is what bounds them, and
with workers that may run many. Prints a table and writes ``benchmarks/results/scale.json``: turns
relative to those of one worker, and the processor time of each part, in cores.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
import uuid
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from google.genai import types
from rich.console import Console
from rich.table import Table
from temporalio.client import Client
from temporalio.service import RPCError

from campaign.postgres import Postgres
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.process import Process
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.sessions import DatabaseSessionService
from durable_adk.worker import WorkerOptions, worker

RESULTS = Path(__file__).parent / "results" / "scale.json"
WORKERS = (1, 2, 4)
FEW, MANY = 2, 100
"""Steps at a time of one worker."""
WORKING = 0.5
"""Seconds that the tool of each turn takes."""
SESSIONS = 64
"""At a time, each with one turn after the other."""
WARM = 3.0
"""Seconds before the measuring begins."""


async def capital(country: str) -> dict[str, str]:
    """Look a capital up, which takes a while."""
    await asyncio.sleep(WORKING)
    return {"capital": "Paris", "of": country}


def reply(request: LlmRequest) -> types.Content | str:
    """A call, and then an answer."""
    last = (request.contents[-1].parts or [])[-1]
    if last.function_response:
        return "It is Paris."
    called = types.FunctionCall(name="capital", args={"country": "France"})
    return types.Content(role="model", parts=[types.Part(function_call=called)])


async def serve(address: str, store: str, queue: str, steps: int) -> None:
    """A worker process, until SIGTERM."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[capital])
    sessions = DatabaseSessionService(store)
    options = WorkerOptions(
        task_queue=queue, max_concurrent=steps, max_concurrent_workflow_tasks=steps
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app = App(name="scale", root_agent=agent)
    client = await connect(address)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        print("ready", flush=True)
        await stop.wait()
    await sessions.close()


class Measured(NamedTuple):
    """One run."""

    workers: int
    steps: int
    turns: float
    """A second; only to be compared within one run of this program."""
    cores: dict[str, float]
    """That each part kept busy."""


@dataclass(frozen=True)
class Bench:
    """What all runs share."""

    folder: Path
    server: TemporalServer
    postgres: Postgres
    client: Client
    seconds: float

    async def run(self, workers: int, steps: int) -> Measured:
        """Have some workers do turns for some seconds."""
        queue = f"scale-{workers}-{steps}"
        async with AsyncExitStack() as stack:
            crew = [await self._worker(stack, queue, steps, n) for n in range(workers)]
            ended: list[float] = []
            lanes = [asyncio.create_task(self._play(queue, ended)) for _ in range(SESSIONS)]
            await asyncio.sleep(WARM)
            before, began = self._times(crew), time.monotonic()
            await asyncio.sleep(self.seconds)
            after, took = self._times(crew), time.monotonic() - began
            cores = {part: (after[part] - before[part]) / took for part in after}
            turns = sum(began <= at <= began + took for at in ended) / took
            for lane in lanes:
                if lane.done():
                    lane.result()  # it has failed, and fewer turns mean nothing
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        await self._end_all()
        return Measured(workers, steps, turns, cores)

    async def _end_all(self) -> None:
        """Leave nothing to the next run."""
        async for left in self.client.list_workflows("ExecutionStatus = 'Running'"):
            with suppress(RPCError):  # it has just ended
                await self.client.get_workflow_handle(left.id, run_id=left.run_id).terminate()

    async def _worker(self, stack: AsyncExitStack, queue: str, steps: int, number: int) -> Process:
        log = self.folder / f"{queue}-{number}.log"
        arguments = ("--serve", self.server.address, self.postgres.url(), queue, str(steps))
        command = [sys.executable, "-m", "benchmarks.scale", *arguments]
        process = await stack.enter_async_context(await Process.start(command, log=log))
        while "ready" not in _text(log):
            if process.returncode is not None:
                raise RuntimeError(f"A worker has ended:\n{_text(log)}")
            await asyncio.sleep(0.1)
        return process

    async def _play(self, queue: str, ended: list[float]) -> None:
        """One turn after the other in a session of its own."""
        request = {"app": "scale", "user": "u", "session": uuid.uuid4().hex, "message": "Capital?"}
        while True:
            name = uuid.uuid4().hex
            await self.client.execute_workflow("Invocation", request, id=name, task_queue=queue)
            ended.append(time.monotonic())

    def _times(self, crew: list[Process]) -> dict[str, float]:
        """Seconds of processor time of each part so far."""
        postgres = self.postgres.process
        return {
            "workers": sum(_spent(process.pid) for process in crew),
            "Temporal": _spent(self.server.pid),
            "PostgreSQL": _spent(postgres.pid) if postgres else 0.0,
            "clients": time.process_time(),
        }


def _spent(pid: int) -> float:
    """Seconds of processor time of a process and all that it has started."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    members = [own, *(child.cpu_times() for child in process.children(recursive=True))]
    gone = own.children_user + own.children_system
    return gone + sum(one.user + one.system for one in members)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def measure(folder: Path, seconds: float) -> list[Measured]:
    """Start what is shared, and do all runs."""
    postgres = Postgres(folder / "postgres")
    await postgres.start()
    try:
        store = DatabaseSessionService(postgres.url())
        await store.prepare()
        await store.close()
        async with TemporalServer.start(data_dir=folder, headless=True) as server:
            client = await connect(server.address)
            bench = Bench(folder, server, postgres, client, seconds)
            return [await bench.run(n, steps) for steps in (FEW, MANY) for n in WORKERS]
    finally:
        await postgres.stop()


def report(runs: list[Measured]) -> list[dict[str, Any]]:
    """Print the table; its rows."""
    alone = {run.steps: run.turns for run in runs if run.workers == 1}
    parts = list(runs[0].cores)
    table = Table("steps at a time", "workers", "turns, to one worker's", *parts)
    rows: list[dict[str, Any]] = []
    for run in runs:
        ratio = run.turns / alone[run.steps]
        cores = {part: round(used, 2) for part, used in run.cores.items()}
        rows.append(
            {"steps": run.steps, "workers": run.workers, "turns": round(ratio, 2), "cores": cores}
        )
        numbers = (f"{used:.2f}" for used in cores.values())
        table.add_row(str(run.steps), str(run.workers), f"{ratio:.2f}", *numbers)
    console = Console()
    console.print(table)
    console.print(f"The other columns are cores kept busy, of {os.cpu_count()}.")
    return rows


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=4, metavar=("ADDRESS", "STORE", "QUEUE", "STEPS"))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of the six runs")
    arguments = parser.parse_args()
    if arguments.serve:
        address, store, queue, steps = arguments.serve
        asyncio.run(serve(address, store, queue, int(steps)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL's own user has to get through
        rows = report(asyncio.run(measure(folder, arguments.seconds)))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
