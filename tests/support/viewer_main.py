"""A viewer: ``python -m tests.support.viewer_main ADDRESS QUEUE STORE INVOCATION``."""

import asyncio
import sys

from durable_adk.agents import LlmAgent
from durable_adk.client import connect
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from tests.support.scripts import USER


async def main(address: str, queue: str, store: str, invocation_id: str) -> None:
    """Attach to an invocation and print its events as they come, the user's first."""
    agent = LlmAgent(name="unused", model=ScriptedModel())
    service = SqliteSessionService(store)
    async with Runner(
        agent=agent,
        app_name="app",
        session_service=service,
        client=await connect(address),
        task_queue=queue,
    ) as runner:
        async for event in runner.run_async(
            **USER, invocation_id=invocation_id, yield_user_message=True
        ):
            print(event.to_json(), flush=True)  # noqa: T201  # whoever started us reads it
    await service.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
