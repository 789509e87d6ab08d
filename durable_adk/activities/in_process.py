"""What runtimes have in common that perform effects in their own process."""

import asyncio
import time
import uuid

from durable_adk.flows.runtime import Inbox, StepBatches


class InProcess:
    """The loop's inputs in a process: a part of `flows.runtime.Runtime`."""

    batches: StepBatches | None = None

    def __init__(self) -> None:
        self.inbox = Inbox()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def new_id(self) -> str:
        """Return a random uuid."""
        return str(uuid.uuid4())

    async def leave(self, agents: "asyncio.Task[None]") -> None:
        """Cancel the agents' task, which would not end otherwise in process."""
        agents.cancel()
        await asyncio.gather(agents, return_exceptions=True)
