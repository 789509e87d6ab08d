"""A client process: ``python -m tests.support.client_main ADDRESS QUEUE DIR APP INVOCATION``."""

import asyncio
import sys
from pathlib import Path

from durable_adk.client import connect
from tests.support.processes import Workplace


async def main(address: str, queue: str, folder: Path, app: str, invocation_id: str) -> None:
    """Run an invocation and print its events as they come."""
    place = Workplace(folder=folder, client=await connect(address), address=address, queue=queue)
    async for event in place.run(app, invocation_id=invocation_id):
        print(event.id, flush=True)  # noqa: T201  # a sign of life for whoever reads the log


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:6]))
