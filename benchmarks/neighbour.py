"""What others feel while one session has a long queue: ``make bench``.

A client in a process of its own sends messages to one session, in turn with an idle worker, with
200 messages queued on another session, and with 100 answers to a busy one; on SQLite and on
PostgreSQL. Prints ratios of a turn's p50 and p95 and the looks a second at the queue.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from google.genai import types
from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from campaign.postgres import Postgres
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.sessions import DatabaseSessionService, SessionKey, SessionLog
from durable_adk.sessions.log.queue import Queue
from durable_adk.tools import FunctionTool
from durable_adk.worker import WorkerOptions, worker

QUEUE = "bench-neighbour"
MESSAGES, ANSWERS = 200, 100
SLOW = 600.0
"""Seconds that the tool runs which keeps a session busy: longer than the measurement."""
KEY = SessionKey("bench", "mallory", "s")


class Counted:
    """Counts the looks of those who wait."""

    count = 0


def counting() -> None:
    """Have each look of this process counted."""
    check_turn = Queue.check_turn

    async def counted(self: Queue, key: SessionKey, **options: Any) -> None:
        Counted.count += 1
        await check_turn(self, key, **options)

    Queue.check_turn = counted


async def slow() -> str:
    """Take long."""
    await asyncio.sleep(SLOW)
    return "done"


async def guarded() -> str:
    """Be asked for first."""
    return "done"


def reply(request: LlmRequest) -> str | types.Part:
    """Call the tool that the message names."""
    (last, *_) = reversed(request.contents[-1].parts or [])
    if last.text in {"slow", "guarded"}:
        return types.Part(function_call=types.FunctionCall(name=last.text, args={}))
    return "hi"


def app() -> App:
    """One agent with both tools."""
    tools = [slow, FunctionTool(guarded, require_confirmation=True)]
    model = ScriptedModel(replies=reply)
    agent = LlmAgent(name="bench", model=model, tools=tools, include_contents="none")
    return App(name="bench", root_agent=agent)


async def start(client: Client, message: str, name: str, session: str = KEY.session_id) -> None:
    """Send a message of the user with the queue."""
    request = {"app": "bench", "user": KEY.user_id, "session": session, "message": message}
    request |= {"invocationId": name, "createSession": True}
    await client.start_workflow("Invocation", request, id=name, task_queue=QUEUE)


async def probe(address: str, turns: int) -> None:
    """The neighbour: milliseconds of each of its turns, after two to warm up."""
    client = await connect(address)
    times: list[float] = []
    for number in range(turns + 2):
        request = {"app": "bench", "user": "bob", "session": "b", "message": "hello"}
        request |= {"createSession": True}
        begun = time.perf_counter()
        name = f"bob-{os.getpid()}-{number}"
        await client.execute_workflow("Invocation", request, id=name, task_queue=QUEUE)
        times.append((time.perf_counter() - begun) * 1000)
    print(*times[2:], flush=True)


async def measured(address: str, turns: int) -> tuple[float, float, float]:
    """The neighbour's p50 and p95, and how many looks a second those who wait took."""
    begun, before = time.monotonic(), Counted.count
    command = "-m", "benchmarks.neighbour", "--probe", address, "--turns", str(turns)
    child = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    times = [float(text) for text in out.split()]
    rate = (Counted.count - before) / (time.monotonic() - begun)
    return statistics.median(times), statistics.quantiles(times, n=20)[-1], rate


async def until(sessions: SessionLog, status: str, count: int) -> None:
    """Wait until so many invocations have a status."""
    async with asyncio.timeout(60):
        while True:
            listed = await sessions.invocations_by_time(app_name="bench", limit=1000)
            if sum(record.status.value == status for _, record in listed) >= count:
                return
            await asyncio.sleep(0.1)


async def on(name: str, sessions: SessionLog, turns: int, table: Table) -> None:
    """All three measurements on one store."""
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder), headless=True) as server:
            client = await connect(server.address)
            options = WorkerOptions(task_queue=QUEUE)
            async with worker(client, apps=[app()], session_service=sessions, options=options):
                await measured(server.address, 5)  # warm up
                for number in range(ANSWERS):
                    await start(client, "guarded", f"g{number}", "asked")
                await until(sessions, "paused", ANSWERS)
                base = await measured(server.address, turns)
                await start(client, "slow", "holder")
                await until(sessions, "running", 1)
                for number in range(MESSAGES):
                    await start(client, "hi", f"m{number}")
                await asyncio.sleep(5)
                row(
                    table, name, f"{MESSAGES} messages", base, await measured(server.address, turns)
                )
                for number in range(MESSAGES):
                    await client.get_workflow_handle(f"m{number}").terminate()
                await start(client, "slow", "other", "asked")
                await until(sessions, "running", 2)
                for number in range(ANSWERS):
                    handle = client.get_workflow_handle(f"g{number}")
                    (call,) = await handle.query("pending")
                    answer = {"callId": call["callId"], "confirmed": True}
                    await handle.signal("answer", answer)
                await asyncio.sleep(5)
                row(table, name, f"{ANSWERS} answers", base, await measured(server.address, turns))
    await sessions.close()


def row(
    table: Table,
    store: str,
    waiting: str,
    base: tuple[float, float, float],
    found: tuple[float, float, float],
) -> None:
    """Add what was found, relative to the idle worker."""
    p50, p95 = (f"{found[place] / base[place]:.2f}" for place in (0, 1))
    table.add_row(store, waiting, p50, p95, f"{found[2]:.1f}")


async def measure(turns: int) -> None:
    """Both stores, one after the other."""
    table = Table("store", "waiting", "neighbour's p50", "its p95 (aim <= 2)", "looks a second")
    with tempfile.TemporaryDirectory() as folder:
        await on("SQLite", DatabaseSessionService(f"sqlite:///{folder}/s.db"), turns, table)
        postgres = Postgres(Path(folder) / "postgres")
        await postgres.start()
        try:
            await on("PostgreSQL", DatabaseSessionService(postgres.url()), turns, table)
        finally:
            await postgres.stop()
    Console().print(table)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probe", metavar="ADDRESS")
    parser.add_argument("--turns", type=int, default=40)
    arguments = parser.parse_args()
    if arguments.probe:
        asyncio.run(probe(arguments.probe, arguments.turns))
    else:
        counting()
        asyncio.run(measure(arguments.turns))
    sys.stdout.flush()
    os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
