"""A worker for the storm: ``python -m tests.support.storm_worker_main ADDRESS QUEUE DIR``."""

import asyncio
import sys
from pathlib import Path

from durable_adk.client import connect
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.support.storm_apps import storm_app


async def main(address: str, queue: str, folder: Path) -> None:
    """Serve the app until a signal ends the process."""
    service = SqliteSessionService(folder / "sessions.db")
    options = WorkerOptions(task_queue=queue)
    apps = [storm_app(folder)]
    async with worker(await connect(address), apps=apps, session_service=service, options=options):
        print("ready", flush=True)  # noqa: T201  # who has started it waits for this
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
