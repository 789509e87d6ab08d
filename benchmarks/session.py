"""What a turn of one long session costs at its start and its end: ``python -m benchmarks.session``.

Twice: with a conversation that the model sees whole, and with one of which it sees the current turn
only, so that its request does not grow.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from benchmarks.systems import OURS, Running, running
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer


async def session(one: Running, client: Client, turns: int) -> tuple[float, float]:
    """Return bytes of history and time of the last turns, each to those of the first."""
    name = uuid.uuid4().hex
    sizes: list[int] = []
    times: list[float] = []
    for number in range(turns):
        began = time.perf_counter()
        await one.turn(name)
        times.append(time.perf_counter() - began)
        if number in (1, turns - 1):
            assert one.last
            history = await client.get_workflow_handle(one.last).fetch_history()
            sizes.append(sum(event.ByteSize() for event in history.events))
    return sizes[1] / sizes[0], statistics.median(times[-20:]) / statistics.median(times[5:25])


async def measure(turns: int) -> None:
    """Measure both, and print."""
    table = Table("model sees", "bytes of the last turn to the second", "time of 20 turns")
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder)) as server:
            client = await connect(server.address)
            for app, what in (("bench", "all turns"), ("short", "the current turn")):
                system, store = replace(OURS, app=app), f"{folder}/{app}.db"
                async with running(system, server.address, store, client) as one:
                    size, taken = await session(one, client, turns)
                table.add_row(what, f"{size:.3f}", f"{taken:.2f}")
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    asyncio.run(measure(parser.parse_args().turns))
