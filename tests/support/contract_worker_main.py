"""A worker for contracts: ``python -m tests.support.contract_worker_main ADDRESS QUEUE DIR``."""

import asyncio
import sys
from pathlib import Path

from durable_adk.client import connect
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.support.contract_apps import contract_apps


async def main(address: str, queue: str, folder: Path) -> None:
    """Serve the apps until a signal ends the process."""
    apps = list(contract_apps(folder).values())
    service = SqliteSessionService(folder / "sessions.db")
    options = WorkerOptions(task_queue=queue)
    async with worker(await connect(address), apps=apps, session_service=service, options=options):
        print("ready", flush=True)  # noqa: T201  # Workplace.start_worker waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
