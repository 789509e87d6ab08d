"""What a durable tool turn costs, next to FLOOR, in one run: ``make bench``.

Prints a table and writes ``benchmarks/results/turn.json``. Ratios and counts only: seconds mean
nothing on a machine that does other things too.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from benchmarks.agent import apps
from benchmarks.floor import floor_worker
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker

FLOOR_QUEUE, OUR_QUEUE = "bench-floor", "bench-ours"
RESULTS = Path(__file__).parent / "results" / "turn.json"
MESSAGE = "x" * 2048
CONCURRENCY = 64


async def serve(address: str, store: str, *, sandboxed: bool) -> None:
    """The worker process: FLOOR's worker and ours side by side."""
    client = await connect(address)
    sessions = SqliteSessionService(store)
    ours = WorkerOptions(task_queue=OUR_QUEUE, sandboxed=sandboxed)
    floor = WorkerOptions(task_queue=FLOOR_QUEUE, sandboxed=sandboxed)
    async with (
        worker(client, apps=apps(), session_service=sessions, options=ours),
        floor_worker(client, floor),
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the parent closes it
    await sessions.close()


class Bench:
    """Runs turns of both kinds."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def turn(self, kind: str, session: str, app: str = "bench") -> str:
        """One turn to its end; the workflow's id."""
        request = {"app": app, "user": "u", "session": session, "message": MESSAGE}
        name, queue = ("Floor", FLOOR_QUEUE) if kind == "floor" else ("Invocation", OUR_QUEUE)
        workflow_id = f"{kind}-{uuid.uuid4().hex}"
        await self.client.execute_workflow(name, request, id=workflow_id, task_queue=queue)
        return workflow_id

    async def latency(self, rounds: int) -> dict[str, float]:
        """Median seconds of a turn, one at a time, both kinds in turn."""
        times: dict[str, list[float]] = {"floor": [], "ours": []}
        for _ in range(rounds):
            for kind, taken in times.items():
                taken.append(await timed(lambda kind=kind: self.turn(kind, uuid.uuid4().hex)))
        return {kind: statistics.median(taken) for kind, taken in times.items()}

    async def throughput(self, turns: int, rounds: int) -> dict[str, float]:
        """Turns a second with `CONCURRENCY` at a time; the median of alternating rounds."""
        rates: dict[str, list[float]] = {"floor": [], "ours": []}
        for _ in range(rounds):
            for kind, rate in rates.items():
                gate = asyncio.Semaphore(CONCURRENCY)

                async def one(kind: str = kind, gate: asyncio.Semaphore = gate) -> None:
                    async with gate:
                        await self.turn(kind, uuid.uuid4().hex)

                async def all_of_them(one: Callable[[], Awaitable[None]] = one) -> None:
                    await asyncio.gather(*(one() for _ in range(turns)))

                rate.append(turns / await timed(all_of_them))
        return {kind: statistics.median(rate) for kind, rate in rates.items()}

    async def session(self, turns: int, app: str) -> dict[str, Any]:
        """One long session: history of a turn, and its time, at the start and at the end."""
        name = uuid.uuid4().hex
        sizes: list[int] = []
        times: list[float] = []
        counts: dict[str, int] = {}
        for number in range(turns):
            started = time.perf_counter()
            workflow_id = await self.turn("ours", name, app)
            times.append(time.perf_counter() - started)
            if number in (1, turns - 1):
                history = await self.client.get_workflow_handle(workflow_id).fetch_history()
                sizes.append(sum(event.ByteSize() for event in history.events))
                counts = count(history.events)
        early, late = statistics.median(times[5:25]), statistics.median(times[-20:])
        return {
            "turns": turns,
            "history_bytes_of_turn_2": sizes[0],
            "history_bytes_of_last_turn": sizes[1],
            "bytes_ratio": sizes[1] / sizes[0],
            "time_ratio_last_20_to_turns_5_to_25": late / early,
            **counts,
        }


def count(events: Any) -> dict[str, int]:
    """What a history holds."""
    kinds = [event.event_type for event in events]
    return {
        "events": len(kinds),
        "workflow_tasks": kinds.count(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED),
        "activities": kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED),
    }


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Seconds the work took."""
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Start everything, run everything."""
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder), headless=True) as server:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "benchmarks.turn", "--serve", server.address,
                "--store", f"{folder}/sessions.db",
                *(["--unsandboxed"] if arguments.unsandboxed else []),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert child.stdin is not None
            assert child.stdout is not None
            while b"ready" not in await child.stdout.readline():
                pass
            bench = Bench(await connect(server.address))
            await bench.latency(5)  # warm up
            result = {
                "latency": await bench.latency(arguments.rounds),
                "throughput": await bench.throughput(arguments.turns, 3),
                "session": await bench.session(arguments.session_turns, "bench"),
                "short": await bench.session(arguments.session_turns, "short"),
            }
            child.stdin.close()
            await child.wait()
            return result


def report(result: dict[str, Any]) -> dict[str, Any]:
    """Print the table; the result with its ratios."""
    latency = result["latency"]["ours"] / result["latency"]["floor"]
    throughput = result["throughput"]["ours"] / result["throughput"]["floor"]
    session = result["session"]
    rows = [
        ("latency of a tool turn, one at a time, to FLOOR", f"{latency:.2f}", "<= 1.25"),
        (f"throughput at {CONCURRENCY} at a time, to FLOOR", f"{throughput:.2f}", ">= 0.75"),
        ("workflow tasks of a turn", str(session["workflow_tasks"]), "4"),
        ("activities of a turn", str(session["activities"]), "3"),
        ("history events of a turn", str(session["events"]), "<= 30"),
        ("history bytes of turn 2", str(session["history_bytes_of_turn_2"]), ""),
        (
            f"history bytes of turn {session['turns']} to turn 2's",
            f"{session['bytes_ratio']:.3f}",
            "<= 1.10",
        ),
        (
            f"time of the last 20 of {session['turns']} turns to turns 5 to 25",
            f"{session['time_ratio_last_20_to_turns_5_to_25']:.2f}",
            "",
        ),
        (
            "the same, when the model request does not grow",
            f"{result['short']['time_ratio_last_20_to_turns_5_to_25']:.2f}",
            "<= 1.10",
        ),
    ]
    table = Table("what", "measured", "aim")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    return {"latency_ratio": latency, "throughput_ratio": throughput, **result}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="ADDRESS")
    parser.add_argument("--store")
    parser.add_argument("--unsandboxed", action="store_true")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--session-turns", type=int, default=200)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve, arguments.store, sandboxed=not arguments.unsandboxed))
        return
    result = report(asyncio.run(measure(arguments)))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
