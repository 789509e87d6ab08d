"""How soon others notice what has happened: ``python -m benchmarks.reaction``.

Each line is the median and the slowest of some rounds beside its bound in seconds, on a machine
that does nothing else. Tests only show that they notice. It exits with 1 if a median exceeds its
bound.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.process import Process
from durable_adk.events import Event
from durable_adk.partials import SocketPartials
from durable_adk.sessions import SessionKey, SqliteSessionService
from tests.support.chunks import INVOCATION, KEY
from tests.support.processes import Workplace
from tests.support.required import ROOT
from tests.support.waiting import until

Measured = AsyncGenerator[float]
Case = tuple[str, float, Callable[[Path, int], Measured]]
CHUNKS = 100


@asynccontextmanager
async def _store(file: Path) -> AsyncGenerator[SqliteSessionService]:
    service = SqliteSessionService(file)
    try:
        yield service
    finally:
        await service.close()


async def _waits(
    service: SqliteSessionService, other: SqliteSessionService, rounds: int
) -> Measured:
    """Seconds from a commit until a waiter knows of it."""
    key = SessionKey("app", "user", uuid.uuid4().hex)
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    record = await service.open_invocation(
        key, invocation_id="i", lease_owner="w", user_event=message, create_session=True
    )
    for number in range(1, rounds + 1):
        waiting = asyncio.create_task(other.wait_for_change(key, after=number, timeout=60))
        await asyncio.sleep(0.2)  # it waits by then
        event = Event(id=f"i.{number}", invocation_id="i", author="a", timestamp=1.0)
        began = time.perf_counter()
        await service.commit_event(key, event, invocation_id="i", epoch=record.epoch)
        await waiting
        yield time.perf_counter() - began


async def same_store(folder: Path, rounds: int) -> Measured:
    """A waiter of the store object that commits."""
    async with _store(folder / "same.db") as service:
        async for seconds in _waits(service, service, rounds):
            yield seconds


async def other_store(folder: Path, rounds: int) -> Measured:
    """A waiter of another store object, which hears of commits as another process does."""
    async with _store(folder / "two.db") as service, _store(folder / "two.db") as other:
        async for seconds in _waits(service, other, rounds):
            yield seconds


async def chunks(folder: Path, rounds: int) -> Measured:
    """A chunk of an answer, from a worker's process to a viewer's."""
    del rounds
    channel = SocketPartials(folder / "chunks.db")
    command = [sys.executable, "-m", "tests.support.publisher_main", folder / "chunks.db"]
    options = {"log": folder / "log", "cwd": ROOT}
    async with (
        channel.subscribe(KEY, INVOCATION) as viewer,
        await Process.start([*command, "10000", "0.005"], **options),
    ):
        for _ in range(CHUNKS):
            partial = await viewer.get()
            yield (time.monotonic_ns() - int(partial.event.text)) / 1e9


async def cancellation(folder: Path, rounds: int) -> Measured:
    """A run that is cancelled while its tool runs, until its caller has the last event."""
    async with TemporalServer.start(data_dir=folder / "temporal", headless=True) as server:
        client = await connect(server.address)
        for number in range(rounds):
            (folder / str(number)).mkdir()
            place = Workplace(folder=folder / str(number), client=client, address=server.address)
            async with await place.start_worker():
                run = asyncio.create_task(place.all_of("tool"))
                await until(place.traces.runs)
                began = time.perf_counter()
                await place.workflow("tool").cancel()
                await run
                yield time.perf_counter() - began
                place.traces.open_gate()


CASES: tuple[Case, ...] = (
    ("commit, waiter of the same store", 0.3, same_store),
    ("commit, waiter of another store object", 0.4, other_store),
    ("chunk, viewer in another process", 0.1, chunks),
    ("cancelled run with a tool under way", 3.0, cancellation),
)


async def main(rounds: int) -> int:
    """Print the table; 1 if a median exceeds its bound."""
    table = Table("what is noticed", "median s", "slowest s", "bound s")
    late = 0
    for name, bound, case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            seconds = [one async for one in case(Path(folder), rounds)]
        median = statistics.median(seconds)
        late += median > bound
        table.add_row(name, f"{median:.3f}", f"{max(seconds):.3f}", f"{bound:.1f}")
    Console().print(table)
    return int(late > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    sys.exit(asyncio.run(main(parser.parse_args().rounds)))
