"""What telemetry costs a tool turn: ``python -m benchmarks.telemetry``.

Workers without a tracer provider and with one that exports in batches, in turn, in one run. With
``--other PATH`` a third one runs the code of another checkout, such as the commit before.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from temporalio.client import Client

from benchmarks.agent import apps
from benchmarks.task import message
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker

HERE = Path(__file__).parents[1]


class Nowhere(SpanExporter):
    """Takes spans as a collector does that is never slow."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Make of them what would be sent."""
        for span in spans:
            span.to_json()
        return SpanExportResult.SUCCESS


async def serve(address: str, store: str, queue: str) -> None:
    """A worker process, until its input ends."""
    if queue == "traced":
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nowhere()))
        trace.set_tracer_provider(provider)
    client = await connect(address)
    options = WorkerOptions(task_queue=queue)
    async with worker(
        client, apps=apps(), session_service=SqliteSessionService(store), options=options
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def turn(client: Client, queue: str) -> None:
    """One turn in a session of its own."""
    request = {"app": "bench", "user": "u", "session": uuid.uuid4().hex, "message": message()}
    name = f"{queue}-{uuid.uuid4().hex}"
    await client.execute_workflow("Invocation", request, id=name, task_queue=queue)


async def start(stack: AsyncExitStack, address: str, folder: str, queue: str, code: Path) -> None:
    """A worker process that is ready."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HERE / "benchmarks" / "telemetry.py"), "--serve", address),
        *("--store", f"{folder}/{queue}.db", "--queue", queue),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(code), "PATH": "/usr/bin:/bin"},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    while b"ready" not in await child.stdout.readline():
        pass
    stack.push_async_callback(child.wait)
    stack.callback(child.stdin.close)


async def measure(rounds: int, other: Path | None) -> None:
    """Print ratios of medians."""
    code = {"bare": HERE, "traced": HERE} | ({"other": other} if other else {})
    with tempfile.TemporaryDirectory() as folder:
        async with (
            TemporalServer.start(data_dir=Path(folder), headless=True) as server,
            AsyncExitStack() as stack,
        ):
            for queue, path in code.items():
                await start(stack, server.address, folder, queue, path)
            client = await connect(server.address)
            times: dict[str, list[float]] = {queue: [] for queue in code}
            for number in range(rounds + 5):
                for queue, taken in times.items():
                    began = time.perf_counter()
                    await turn(client, queue)
                    if number >= 5:  # after it is warm
                        taken.append(time.perf_counter() - began)
    medians = {queue: statistics.median(taken) for queue, taken in times.items()}
    for queue, median in medians.items():
        print(f"{queue}: {median / medians['bare']:.3f} times the turn without a provider")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve")
    parser.add_argument("--store")
    parser.add_argument("--queue")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--other", type=Path)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve, arguments.store, arguments.queue))
    else:
        asyncio.run(measure(arguments.rounds, arguments.other))


if __name__ == "__main__":
    main()
