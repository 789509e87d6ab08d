"""A worker of the campaign, as the spawner starts it: with RUN_DIR, TEMPORAL and STORE."""

import asyncio
import signal
from pathlib import Path

from campaign.journals import RunFolder
from campaign.watched_store import WatchedSessionService
from campaign.workload import make_apps
from durable_adk.client import connect
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker

QUEUE = "campaign"
LIMITS = Limits(max_history_events=30)
"""So few that longer invocations continue as new."""


async def main(folder: RunFolder, address: str, store: str) -> None:
    """Serve the campaign's apps until SIGTERM, and then end as a worker does at a deploy."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    apps = list(make_apps(folder.path).values())
    service = WatchedSessionService(store, folder.commits)
    options = WorkerOptions(task_queue=QUEUE, limits=LIMITS)
    async with worker(await connect(address), apps=apps, session_service=service, options=options):
        print("ready", flush=True)
        await stopped.wait()


def start(arguments: list[str]) -> None:
    """Run it."""
    folder, address, store = arguments
    asyncio.run(main(RunFolder(Path(folder)), address, store))
