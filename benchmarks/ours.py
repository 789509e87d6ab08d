"""The worker process of durable_adk: ``python -m benchmarks.ours ADDRESS QUEUE STORE``."""

import asyncio
import sys

from benchmarks.agent import apps
from benchmarks.task import answer
from durable_adk.client import connect
from durable_adk.sessions import DatabaseSessionService, SqliteSessionService
from durable_adk.worker import WorkerOptions, worker


async def serve(address: str, queue: str, store: str) -> None:
    """Work until the input ends; the store is a file, or the URL of a database."""
    sessions = DatabaseSessionService(store) if ":" in store else SqliteSessionService(store)
    options = WorkerOptions(task_queue=queue)
    client = await connect(address)
    async with worker(client, apps=apps(), session_service=sessions, options=options):
        await answer()
    await sessions.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
