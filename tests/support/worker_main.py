"""A worker process that serves one case after another, with the failpoints that each one wants."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from temporalio.client import Client

from durable_adk.artifacts import FileArtifactService
from durable_adk.client import connect
from durable_adk.failpoints import arm
from durable_adk.sessions import DatabaseSessionService
from durable_adk.settings import Limits, Webhooks
from durable_adk.worker import WorkerOptions, worker
from tests.support.apps import all_apps
from tests.support.telemetry import write_spans

FREEZING = 2.0
"""The heartbeat timeout where a worker is frozen for a while (`failpoints.STOP`)."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to serve, until the next order."""

    queue: str
    folder: Path
    store: str
    """URL of the session store."""
    failpoint: str = ""
    history: int = 4000
    """How many events a run of a workflow may have."""
    heartbeat: float = 8.0
    """Seconds until a step whose worker says nothing is another worker's. A dead process's is
    noticed at once, so this is for frozen ones, and a busy machine delays heartbeats for seconds.
    """
    cache: int = 1000
    """How many workflows are kept."""
    grace: int = 10
    """Seconds that steps get when it is to leave."""
    lost: int = 10
    """How many workers a workflow task may lose in a row."""
    webhooks: Webhooks | None = None
    """Who is told of invocations, if anybody."""
    spans: Path | None = None
    """A file that gets the worker's spans, if any."""


LOG = "workers.log"
"""The file that gets the workers' output."""
LEAVE = "leave"
"""Serve nothing; answered when the last step has ended."""


def main(orders: Connection, address: str, folder: Path) -> None:
    """Carry orders out until the other end of the pipe is closed, or SIGTERM comes."""
    with (folder / LOG).open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        asyncio.run(_serve(orders, address))


async def _serve(orders: Connection, address: str) -> None:
    client, loop = await connect(address), asyncio.get_running_loop()
    inbox: asyncio.Queue[Order | str | None] = asyncio.Queue()

    def receive() -> None:
        try:
            inbox.put_nowait(orders.recv())
        except EOFError:
            loop.remove_reader(orders.fileno())
            inbox.put_nowait(None)

    loop.add_reader(orders.fileno(), receive)
    loop.add_signal_handler(signal.SIGTERM, inbox.put_nowait, None)
    order = await inbox.get()
    while order is not None:
        async with AsyncExitStack() as stack:
            if isinstance(order, Order):
                await _served(client, order, stack)
            orders.send("done")
            order = await inbox.get()


async def _served(client: Client, order: Order, stack: AsyncExitStack) -> None:
    if order.spans is not None:
        write_spans(order.spans)
    sessions = DatabaseSessionService(order.store)
    stack.push_async_callback(sessions.close)
    arm(order.failpoint, order.folder / "failpoints")
    serving = worker(
        client,
        apps=list(all_apps(order.folder).values()),
        session_service=sessions,
        artifact_service=FileArtifactService(order.folder / "artifacts"),
        options=WorkerOptions(
            task_queue=order.queue,
            max_cached_workflows=order.cache,
            limits=Limits(
                max_history_events=order.history,
                heartbeat_timeout=order.heartbeat,
                max_lost_workers=order.lost,
            ),
            graceful_shutdown=timedelta(seconds=order.grace),
            webhooks=order.webhooks,
        ),
    )
    await stack.enter_async_context(serving)
