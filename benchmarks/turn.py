"""What a durable tool turn costs, next to FLOOR and to others, in one run: ``make bench``.

All systems take turns job by job in random order on one server, and each job is compared with
FLOOR's of the same round, so that all see the same machine. Prints a table and writes
``benchmarks/results/turn.json``. Ratios and counts only: seconds mean nothing on a machine that
does other things too.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from benchmarks.jobs import grown, histories, ratios, rounds
from benchmarks.systems import FLOOR, PEERS, SYSTEMS, Running, System, running
from campaign.postgres import Postgres
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.sessions import DatabaseSessionService

RESULTS = Path(__file__).parent / "results" / "turn.json"
AT_ONCE = 64
LONG = 300
"""Tool calls of a long turn."""

Found: TypeAlias = dict[str, dict[str, Any]]
"""What was found, by system and then by what it is."""


async def measure(systems: Sequence[Running], client: Client, how: argparse.Namespace) -> Found:
    """Measure all systems."""
    found: Found = {one.system.name: {} for one in systems}

    def add(what: str, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            found[name][what] = value
        write(found)  # a run that is ended early leaves what was found

    await rounds(systems, 5, lambda one: one.turns(1))  # warm up
    seconds, cpu = await rounds(systems, how.rounds, lambda one: one.turns(1))
    add("latency", ratios(seconds))
    add("cpu", ratios(cpu))
    add("history", await histories(systems, client))
    seconds, cpu = await rounds(systems, how.crowds, lambda one: one.turns(how.turns, AT_ONCE))
    add("time_of_many", ratios(seconds))
    add("cpu_of_many", ratios(cpu))
    seconds, _ = await rounds(systems, how.long_rounds, lambda one: one.turns(1, 1, LONG))
    add("long", ratios(seconds))
    add("long_history", await histories(systems, client))
    add("repeated", {one.system.name: one.repeated for one in systems})
    add("memory", {one.system.name: await grown(one, how.memory_turns) for one in systems})
    return found


def write(found: Found) -> None:
    """Write what was found so far."""
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


async def run(systems: Sequence[System], how: argparse.Namespace, folder: Path) -> Found:
    """Start all that is needed, and measure."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(TemporalServer.start(data_dir=folder))
        client = await connect(server.address)
        started: list[Running] = []
        for number, system in enumerate(systems):
            store = str(folder / f"{number}.db")
            if system.on_postgres:
                postgres = Postgres(folder / f"postgres{number}")
                await postgres.start()
                stack.push_async_callback(postgres.stop)
                store = postgres.url()
                service = DatabaseSessionService(store)
                await service.prepare()
                await service.close()
            worker = running(system, server.address, store, client)
            started.append(await stack.enter_async_context(worker))
        return await measure(started, client, how)


def report(found: Found, how: argparse.Namespace) -> None:
    """Print the table."""

    def ratio(what: str) -> Callable[[Any], str]:
        return lambda one: f"{one[what]['median']:.2f} ({one[what]['p20']:.2f})"

    rows: dict[str, Callable[[Any], str]] = {
        "time of a tool turn": ratio("latency"),
        "its worker's CPU": ratio("cpu"),
        f"throughput, {AT_ONCE} at a time": lambda one: f"{1 / one['time_of_many']['median']:.2f}",
        "its worker's CPU a turn": ratio("cpu_of_many"),
        f"time of {LONG} tool calls": ratio("long"),
        "failed turns, run again": lambda one: str(one["repeated"]),
        "history events of a tool turn": lambda one: str(one["history"]["events"]),
        "its bytes": lambda one: f"{one['history']['bytes']:,}",
        "its billed actions": lambda one: str(one["history"]["actions"]),
        f"history bytes of {LONG} tool calls": lambda one: f"{one['long_history']['bytes']:,}",
        f"MB of a worker after {how.memory_turns:,} turns": lambda one: (
            f"{one['memory']['last']:.0f}"
        ),
        "of it a thousand turns": lambda one: f"{one['memory']['per_1000']:+.1f}",
    }
    table = Table("to FLOOR: median (p20)", *found)
    for name, show in rows.items():
        table.add_row(name, *(_shown(show, one) for one in found.values()))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _shown(show: Callable[[Any], str], one: Any) -> str:
    try:
        return show(one)
    except KeyError:  # a system without Temporal has no history
        return "-"


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="jobs of each system")
    parser.add_argument("--turns", type=int, default=192, help=f"of a job with {AT_ONCE} at a time")
    parser.add_argument("--crowds", type=int, default=5, help="such jobs")
    parser.add_argument("--long-rounds", type=int, default=3, help=f"jobs of {LONG} tool calls")
    parser.add_argument("--memory-turns", type=int, default=2_000)
    parser.add_argument("--only", nargs="*", help="names of systems; FLOOR is always one")
    how = parser.parse_args()
    missing = [one.name for one in SYSTEMS if not one.python.exists()]
    if missing:
        print(f"Without {', '.join(missing)}: `make bench` makes {PEERS.parents[1]}.")
    wanted = {one.name for one in SYSTEMS} if how.only is None else {FLOOR.name, *how.only}
    systems = [one for one in SYSTEMS if one.name in wanted and one.name not in missing]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL's own user has to get through
        found = asyncio.run(run(systems, how, folder))
    report(found, how)
    sys.stdout.flush()
    os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
