"""A worker process that takes orders, also to die."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.events import Event
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.records import InvocationRecord
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.scenarios.catalogue import BY_NAME
from tests.scenarios.ledger import Ledger
from tests.scenarios.stores import shared_stores


@dataclass(frozen=True)
class Order:
    """Scenarios to serve."""

    scenarios: tuple[str, ...]
    queue: str
    cache: int = 1000
    """How many workflows are kept; 0: each is replayed at every task.

    With 0 there is no sandbox, which would be made anew at each task: it watches the same code in
    the other modes."""
    history: int = 4000
    """How many events a run of a workflow may have; 1: it continues as new whenever it can."""
    steps: int = 1
    """`App.steps_per_activity`."""
    dies_after: int | None = None
    """Number of the committed event of session u/s after which the process is killed."""
    delay: float = 0
    """Seconds between that commit and the kill."""


class MortalSessions(SqliteSessionService):
    """A store whose process is killed when a certain event has been committed."""

    def __init__(self, path: Path, order: Order) -> None:
        super().__init__(path)
        self._order = order

    async def open_invocation(self, key: SessionKey, **more: Any) -> InvocationRecord:
        """See base class."""
        record = await super().open_invocation(key, **more)
        await self._look(key)
        return record

    async def commit_event(self, key: SessionKey, event: Event, **more: Any) -> int:
        """See base class."""
        seq = await super().commit_event(key, event, **more)
        await self._look(key)
        return seq

    async def resume_invocation(self, key: SessionKey, **more: Any) -> InvocationRecord:
        """See base class."""
        record = await super().resume_invocation(key, **more)
        await self._look(key)
        return record

    async def close_invocation(self, key: SessionKey, **more: Any) -> InvocationRecord:
        """See base class; its seals are events too."""
        record = await super().close_invocation(key, **more)
        await self._look(key)
        return record

    async def _look(self, key: SessionKey) -> None:
        doom = self._order.dies_after
        if doom is None or key.session_id != "s" or not key.user_id.endswith("-u"):
            return
        revision = await self.read_revision(key)
        if revision < doom:
            return
        if self._order.delay:
            asyncio.get_running_loop().call_later(self._order.delay, _die)
        else:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(orders: Connection, address: str, folder: Path) -> None:
    """Serve scenarios as they are ordered, until the other end of the pipe is closed."""
    with (folder / "workers.log").open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        asyncio.run(_serve(orders, address, folder))


async def _serve(orders: Connection, address: str, folder: Path) -> None:
    client, ledger = await connect(address), Ledger(folder / "ledger")
    async with AsyncExitStack() as stack:
        while (order := await asyncio.to_thread(_next, orders)) is not None:
            sessions = MortalSessions(folder / "sessions.db", order)
            stack.push_async_callback(sessions.close)
            serving = worker(
                client,
                apps=[_app(ledger, name, order.steps) for name in order.scenarios],
                session_service=sessions,
                options=WorkerOptions(
                    task_queue=order.queue,
                    max_cached_workflows=order.cache,
                    sandboxed=order.cache > 0,
                    limits=Limits(max_history_events=order.history),
                    graceful_shutdown=timedelta(seconds=0),
                ),
                **shared_stores(folder),
            )
            await stack.enter_async_context(serving)
            orders.send("ready")


def _app(ledger: Ledger, name: str, steps: int) -> App:
    return ledger.noting(BY_NAME[name].app()).model_copy(update={"steps_per_activity": steps})


def _next(orders: Connection) -> Order | None:
    try:
        return orders.recv()
    except EOFError:
        return None
