"""A TCP proxy that breaks the network between two processes as networks break."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from enum import StrEnum

HOST = "127.0.0.1"
_CHUNK = 65_536


class Mode(StrEnum):
    """What becomes of what is sent."""

    PASS = "pass"  # noqa: S105 - no password
    BLACKHOLE = "blackhole"
    """Nothing arrives, without an error; after healing everything does, as TCP repeats it."""
    DROP_REPLIES = "drop_replies"
    """Requests arrive, replies do not: what was asked for is done, and its ack is lost.

    They stop in the middle: half of what is sent first still comes.
    """


@dataclass(eq=False)
class _Link:
    """One connection: the client's side and the server's."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    frozen: bool = False
    lossy: bool = False

    def abort(self) -> None:
        """Reset both sides."""
        for writer in (self.client, self.server):
            with contextlib.suppress(RuntimeError):
                writer.transport.abort()


@dataclass
class FaultProxy:
    """Listens on loopback and passes on to a port, which need not be open all the time."""

    target: int
    mode: Mode = Mode.PASS
    port: int = 0
    _links: set[_Link] = field(default_factory=set[_Link])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; `port` becomes one that was free."""
        self._open.set()
        self._server = await asyncio.start_server(self._accepted, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and reset all connections."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> int:
        """Reset all connections; how many there were."""
        links = list(self._links)
        for link in links:
            link.abort()
        return len(links)

    def black_hole(self) -> None:
        """Swallow everything until `heal`."""
        self.mode = Mode.BLACKHOLE
        self._open.clear()

    def drop_replies(self) -> None:
        """Swallow replies until `heal`."""
        self.mode = Mode.DROP_REPLIES

    def freeze_generation(self) -> int:
        """Let the connections there are go silently dead, as a NAT does; new ones are fine."""
        for link in self._links:
            link.frozen = True
        return len(self._links)

    def heal(self) -> None:
        """Pass everything; connections that have lost a reply are reset, as they make no sense."""
        self.mode = Mode.PASS
        self._open.set()
        for link in [link for link in self._links if link.lossy]:
            link.abort()

    def bury(self) -> None:
        """Reset the frozen connections, so that their clients do not wait for long."""
        for link in [link for link in self._links if link.frozen]:
            link.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await self._open.wait()
            to_reader, to_writer = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, to_writer)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, to_writer, link, replies=False))
                group.create_task(self._pump(to_reader, writer, link, replies=True))
        except* (OSError, asyncio.CancelledError):
            pass  # one side went away, or we do
        finally:
            self._links.discard(link)
            link.abort()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        link: _Link,
        *,
        replies: bool,
    ) -> None:
        while data := await source.read(_CHUNK):
            await self._open.wait()
            if link.frozen:
                await asyncio.Event().wait()
            if replies and self.mode is Mode.DROP_REPLIES:
                # Half a reply: its reader waits for the rest.
                data = b"" if link.lossy else data[: len(data) // 2]
                link.lossy = True
            sink.write(data)
            await sink.drain()
        raise ConnectionResetError  # ends the other direction as well
