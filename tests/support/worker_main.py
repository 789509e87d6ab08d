"""A worker of the tests' apps: ``python -m tests.support.worker_main ADDRESS QUEUE DIR``."""

import asyncio
import os
import sys
from pathlib import Path

from durable_adk.client import connect
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.support.apps import all_apps
from tests.support.telemetry import write_spans

HISTORY = "CHAOS_HISTORY"
"""Variable: how many events a run of a workflow may have."""

SPANS = "CHAOS_SPANS"
"""Variable: a file that gets the worker's spans."""


async def main(address: str, queue: str, folder: Path) -> None:
    """Serve all apps until a signal ends the process."""
    if spans := os.environ.get(SPANS):
        write_spans(Path(spans))
    apps = list(all_apps(folder).values())
    service = SqliteSessionService(folder / "sessions.db")
    history = int(os.environ.get(HISTORY, "4000"))
    limits = Limits(max_history_events=history)
    options = WorkerOptions(task_queue=queue, limits=limits)
    async with worker(await connect(address), apps=apps, session_service=service, options=options):
        print("ready", flush=True)  # noqa: T201  # Workplace.start_worker waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
