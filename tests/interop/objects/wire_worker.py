"""A worker process that serves the agents of `wires`, and dies at a given point."""

import asyncio
import os
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.failpoints import arm
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.interop.objects.wires import Wire, weather_agent

PRELOAD = (__name__, "litellm", "google.adk.models.lite_llm", "durable_adk.interop")


@dataclass(frozen=True)
class Order:
    """What to serve."""

    wire: Wire
    url: str
    """The provider's."""
    queue: str
    failpoint: str

    def app(self) -> App:
        """The agent that asks the provider."""
        return App(name="app", root_agent=weather_agent(self.wire, self.url))


def main(orders: Connection, address: str, folder: Path) -> None:
    """Carry out one order until the other end of the pipe is closed."""
    with (folder / "workers.log").open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        asyncio.run(_serve(orders, address, folder))


async def _serve(orders: Connection, address: str, folder: Path) -> None:
    order: Order = orders.recv()
    sessions = SqliteSessionService(folder / "sessions.db")
    arm(order.failpoint, folder / "failpoints")
    serving = worker(
        await connect(address),
        apps=[order.app()],
        session_service=sessions,
        options=WorkerOptions(task_queue=order.queue),
    )
    async with serving:
        orders.send("ready")
        await asyncio.to_thread(_until_closed, orders)


def _until_closed(orders: Connection) -> None:
    try:
        orders.recv()
    except EOFError:
        return
