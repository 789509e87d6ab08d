"""A worker process that is forked from one that has imported everything, and takes orders.

Starting Python and importing the SDKs costs seconds of processor time, a fork some milliseconds.
"""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

Main = Callable[[Connection, str, Path], None]
"""Carries out the orders that it receives, and answers each when it has done so."""


class ForkedWorker:
    """A process that runs `main`, connected by a pipe.

    Args:
        main: What it runs, with its end of the pipe, the address and the folder.
        address: Temporal's.
        folder: What the processes of a test share.
        preload: Modules that the process it is forked from imports. All who use this class in one
            process name the same modules: there is one process to fork from.
    """

    def __init__(self, main: Main, address: str, folder: Path, preload: Sequence[str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(preload))
        self._orders, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(theirs, address, folder), daemon=True)
        self._process.start()
        theirs.close()
        self.dead = False
        """Whether an order found it dead."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    async def obey(self, order: Any) -> bool:
        """Have it carry out an order; False if it died meanwhile."""
        try:
            self._orders.send(order)
            await _readable(self._orders.fileno())
            self._orders.recv()
        except (EOFError, OSError):
            self.dead = True
        return not self.dead

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.alive:
            os.kill(self.pid, number)

    async def end(self) -> None:
        """Wait until it has ended."""
        await _readable(self._process.sentinel)

    async def kill(self) -> None:
        """SIGKILL; wait until it has ended."""
        self.signal(signal.SIGKILL)
        await self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill it, unless it has ended."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._orders.close()


async def _readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[None] = loop.create_future()
    loop.add_reader(file, lambda: seen.done() or seen.set_result(None))
    try:
        await seen
    finally:
        loop.remove_reader(file)
