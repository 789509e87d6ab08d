"""A Temporal server of a test module's own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from tests.support.replay import replay_all


@asynccontextmanager
async def own_client(folder: Path) -> AsyncGenerator[Client]:
    """For what looks at all workflows of a server: on the shared one there are thousands.

    At the end their histories are replayed, as those of the shared one are (F42).
    """
    async with TemporalServer.start(data_dir=folder, headless=True) as server:
        client = await connect(server.address)
        yield client
        await replay_all(client)
