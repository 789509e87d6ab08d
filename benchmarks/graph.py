"""What graphs cost, next to a workflow written by hand: ``python -m benchmarks.graph``.

A chain of ten functions takes turns with FLOOR's ten activities, job by job. Then 1,000 items of a
parallel worker, a loop of 10,000 nodes and a question that waits are counted. Ratios and counts
only; writes ``benchmarks/results/graph.json``.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from temporalio.client import Client
from temporalio.service import RPCError

from benchmarks.jobs import histories, ratios, rounds
from benchmarks.systems import FLOOR, OURS, Running, System, running
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.wire.checkpoint import CHECKPOINT

RESULTS = Path(__file__).parent / "results" / "graph.json"
AHEAD = "durable_adk, 20 steps an activity"
SYSTEMS = (
    replace(FLOOR, workflow="FloorChain"),
    replace(OURS, app="chain"),
    System(name=AHEAD, module=OURS.module, workflow=OURS.workflow, app="chain_batch"),
)


async def chains(systems: list[Running], client: Client, number: int) -> dict[str, Any]:
    """Compare chains with FLOOR's."""
    await rounds(systems, 5, lambda one: one.turns(1))  # warm up
    seconds, cpu = await rounds(systems, number, lambda one: one.turns(1))
    return {
        "latency": ratios(seconds),
        "cpu": ratios(cpu),
        "history": await histories(systems, client),
    }


async def once(one: Running, client: Client, app: str, text: str) -> tuple[SessionKey, str]:
    """Run an app's graph in a session of its own; return the session and the workflow's id."""
    name = uuid.uuid4().hex
    request = {"app": app, "user": "u", "session": name, "message": text, "invocationId": name}
    handle = await client.start_workflow("Invocation", request, id=name, task_queue=one.queue)
    if app == "ask":
        for _ in range(200):
            if await handle.query("pending"):
                break
            await asyncio.sleep(0.05)
    while app != "ask":
        with suppress(RPCError):  # a connection of a busy server may end
            await handle.result()
            break
    return SessionKey(app, "u", name), name


async def items(one: Running, client: Client, number: int) -> dict[str, int]:
    """Count the history of so many items."""
    _, name = await once(one, client, "items", str(number))
    history = await client.get_workflow_handle(name).fetch_history()
    size = sum(event.ByteSize() for event in history.events)
    return {"items": number, "events": len(history.events), "bytes": size}


async def loop(
    one: Running, client: Client, store: SqliteSessionService, app: str, number: int
) -> dict[str, Any]:
    """Compare the last tenth of a loop with its first, and measure its checkpoints."""
    running = asyncio.create_task(once(one, client, app, str(number)))
    spent: list[tuple[int, float]] = []  # events, and seconds of CPU
    checkpoints = 0
    while not running.done():
        for key in await store.user_sessions(app_name=app, user_id="u"):
            spent.append((await store.read_revision(key), await one.cpu()))
            notes = await store.read_notes(key, invocation_id=key.session_id, kind=CHECKPOINT)
            checkpoints = max([checkpoints, *(len(note.body) for note in notes)])
        await asyncio.sleep(0.1)
    key, name = await running
    events = [stored.event for stored in await store.read_events(key, after=1)]
    times, tenth = [event.timestamp for event in events], number // 10
    runs = [run async for run in client.list_workflows(f"WorkflowId = '{name}'")]
    return {
        "nodes": number,
        "time_last_to_first": (times[number - 1] - times[-tenth]) / (times[tenth - 1] - times[0]),
        "cpu_last_to_first": _each(spent, number - tenth, number) / _each(spent, 0, tenth),
        "workflow_runs": len(runs),
        "checkpoint_bytes": checkpoints,
    }


def _each(spent: Sequence[tuple[int, float]], first: int, last: int) -> float:
    """Seconds of CPU of an event between two numbers of events."""
    within = [one for one in spent if first <= one[0] <= last]
    return (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0])


async def question(one: Running, client: Client) -> dict[str, int]:
    """Count what the server and the workers still have to do for a question that waits."""
    _, name = await once(one, client, "ask", "go")
    handle = client.get_workflow_handle(name)
    before = len((await handle.fetch_history()).events)
    await asyncio.sleep(5.0)
    raw = (await handle.describe()).raw_description
    return {
        "activities": len(raw.pending_activities),
        "workflow_tasks": int(raw.HasField("pending_workflow_task")),
        "events_in_5_seconds": len((await handle.fetch_history()).events) - before,
    }


async def run(how: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start all that is needed, and measure."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(TemporalServer.start(data_dir=folder))
        client = await connect(server.address)
        started: list[Running] = []
        for number, system in enumerate(SYSTEMS):
            worker = running(system, server.address, str(folder / f"{number}.db"), client)
            started.append(await stack.enter_async_context(worker))
        found: dict[str, Any] = {"chain": await chains(started, client, how.rounds)}
        one, store = started[1], SqliteSessionService(folder / "1.db")
        stack.push_async_callback(store.close)
        found["items"] = await items(one, client, how.items)
        found["question"] = await question(one, client)
        for app in ("loop", "loop_batch") if how.nodes else ():
            found[app] = await loop(one, client, store, app, how.nodes)
        return found


def report(found: dict[str, Any]) -> None:
    """Print it."""
    chain, names = found["chain"], [one.name for one in SYSTEMS]
    table = Table("a chain of ten functions, to FLOOR: median (p20)", *names)
    for what, shown in (("latency", "time"), ("cpu", "its worker's CPU")):
        found_by = [chain[what][name] for name in names]
        table.add_row(shown, *(f"{one['median']:.2f} ({one['p20']:.2f})" for one in found_by))
    for what in ("events", "bytes", "actions"):
        table.add_row(f"history: {what}", *(f"{chain['history'][name][what]:,}" for name in names))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for name in ("items", "question", "loop", "loop_batch"):
        if name in found:
            console.print(f"{name}: {found[name]}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="chains of each system")
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=10_000, help="of the loop; 0: no loop")
    how = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        found = asyncio.run(run(how, Path(name)))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    report(found)
    sys.stdout.flush()
    os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
