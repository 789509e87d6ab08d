"""The campaign's HTTP server, as the spawner starts it: with RUN_DIR, TEMPORAL and STORE."""

import asyncio
import hashlib
from pathlib import Path

from campaign.run_folder import RunFolder
from campaign.stores import converter, shared
from campaign.worker_main import QUEUE
from campaign.workload import KINDS, WEB, Limit
from durable_adk.client import connect
from durable_adk.server.app import app
from durable_adk.server.serving import serve
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import DatabaseSessionService

UNREAD = 12_000_000
"""Bytes that no connection takes from the server before somebody reads them."""
OPEN, BURST, RATE = 24, 40, 2.0
"""Requests of a user that may be open, that may come at once, and per second: low, so that who
reaches that is not much load."""


async def main(folder: RunFolder, address: str, store: str) -> None:
    """Serve until a signal ends the process; the address is in ``web.url``."""
    service = DatabaseSessionService(store)
    client = await connect(address, data_converter=converter(folder))
    users = [WEB, *(limit.user for limit in Limit)]
    tokens = [{"user": user, "sha256": _digest(token_of(user))} for user in users]
    limits = {"max_open_requests": OPEN, "burst": BURST, "requests_per_second": RATE}
    options = {"port": 0, "tokens": tokens, "max_unread_bytes": UNREAD, **limits}
    settings = ServerSettings.model_validate(options)

    def say(url: str) -> None:
        folder.web.write_text(url)
        print("ready", flush=True)

    async with shared(folder, service, store) as stores:
        made = app(
            client=client, task_queue=QUEUE, apps=KINDS, settings=settings, **stores.arguments()
        )
        await serve(made, listening=say)


def token_of(user: str) -> str:
    """What a user of the server authenticates with."""
    return f"the-campaign-knows-{user}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def start(arguments: list[str]) -> None:
    """Run it."""
    folder, address, store = arguments
    asyncio.run(main(RunFolder(Path(folder)), address, store))
