"""`durable-adk web` in a process of its own, and Debian's Chromium to look at it."""

import os
import signal
import socket
import urllib.request
from dataclasses import dataclass, field

from tests.support.commands import Terminal
from tests.support.waiting import PATIENCE, until_true

CHROMIUM = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
"""The arguments that Chromium is started with."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Web:
    """`durable-adk web`, which can be killed and started again at the same place."""

    terminal: Terminal
    arguments: tuple[str, ...]
    """Its targets and further options."""
    port: int = field(default_factory=_free_port)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it serves."""
        options = ["--no-open", "--port", str(self.port), "--no-reload"]
        self.process = self.terminal.start("web", *self.arguments, *options)
        until_true(self._ready)

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=PATIENCE) as response:  # noqa: S310
                return response.status == 200
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL the server."""
        self.process.kill()
        self.process.wait()

    def kill_worker(self) -> None:
        """SIGKILL the worker; the command starts another."""
        workers = self.terminal.processes("durable_adk.cli.dev.worker")
        assert workers
        for pid in workers:
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop it, and end what it left."""
        if self.process.poll() is None:
            self.terminal.stop(self.process)
        self.terminal.close()
