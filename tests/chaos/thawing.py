"""A worker that was frozen continues, and does what harm it can."""

import signal

from harness.forked_worker import ForkedWorker


async def thawed(worker: ForkedWorker) -> None:
    """Let a frozen worker continue, and wait until it has ended what it had begun.

    It ends in order, after its steps: nothing of it can come later.
    """
    worker.signal(signal.SIGCONT)
    worker.signal(signal.SIGTERM)
    await worker.end()
