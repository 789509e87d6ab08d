"""The proxy between two processes breaks the network as it says."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from campaign.proxy import HOST, FaultProxy
from tests.support.waiting import PATIENCE, stays, until

Line = Callable[[str], None]


class Echo:
    """A server that answers each line with itself, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the line is cut."""
        try:
            while line := await reader.readline():
                self.asked.append(line.decode().strip())
                writer.write(line)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


class Caller:
    """A connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    def send(self, text: str) -> None:
        """Ask."""
        self.writer.write(f"{text}\n".encode())

    async def reply(self) -> str:
        """The answer, however long that takes; raises OSError or EOF if the line is cut."""
        async with asyncio.timeout(PATIENCE):
            return (await self._reader.readuntil(b"\n")).decode().strip()

    @property
    def arrived(self) -> bytes:
        """What has arrived and was not read."""
        return bytes(self._reader._buffer)

    async def ask(self, text: str) -> str:
        """Both."""
        self.send(text)
        return await self.reply()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, FaultProxy]]:
    """A server behind a proxy."""
    echo = Echo()
    server = await asyncio.start_server(echo.serve, HOST, 0)
    proxy = FaultProxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    yield echo, proxy
    await proxy.close()
    server.close()


@pytest.fixture
async def caller(echo: tuple[Echo, FaultProxy]) -> AsyncIterator[Caller]:
    """A connection that works."""
    caller = await connected(echo[1])
    yield caller
    caller.writer.close()


async def connected(proxy: FaultProxy) -> Caller:
    """Another one."""
    caller = Caller(*await asyncio.open_connection(HOST, proxy.port))
    assert await caller.ask("hello") == "hello"
    return caller


CUT = (OSError, asyncio.IncompleteReadError)


async def test_a_cut_resets_connections_and_new_ones_work(
    echo: tuple[Echo, FaultProxy], caller: Caller
) -> None:
    """F23: who is cut off notices at once and may come back."""
    assert echo[1].cut() == 1
    with pytest.raises(CUT):
        await caller.ask("lost")
    (await connected(echo[1])).writer.close()


async def test_a_black_hole_delays_and_loses_nothing(
    echo: tuple[Echo, FaultProxy], caller: Caller
) -> None:
    """F23: nothing arrives until it is healed, then everything, as TCP repeats it."""
    echo[1].black_hole()
    caller.send("late")
    await stays(lambda: echo[0].asked == ["hello"])
    echo[1].heal()
    assert await caller.reply() == "late"


async def test_dropped_replies_are_lost_and_what_was_asked_is_done(
    echo: tuple[Echo, FaultProxy], caller: Caller
) -> None:
    """F5: the request arrives, its acknowledgement never does, and healing cuts the line."""
    echo[1].drop_replies()
    caller.send("done")
    await until(lambda: caller.arrived == b"do")  # the whole reply was dealt with
    assert echo[0].asked == ["hello", "done"]
    echo[1].heal()
    with pytest.raises(CUT):
        await caller.reply()


async def test_dropped_replies_stop_in_the_middle(
    echo: tuple[Echo, FaultProxy], caller: Caller
) -> None:
    """F14, F23: half of the first one comes, and nothing after it."""
    echo[1].drop_replies()
    caller.send("half")
    await until(lambda: caller.arrived == b"ha")
    caller.send("more")
    await until(lambda: echo[0].asked == ["hello", "half", "more"])
    await stays(lambda: caller.arrived == b"ha")
    echo[1].heal()
    with pytest.raises(asyncio.IncompleteReadError) as cut:
        await caller.reply()
    assert cut.value.partial == b"ha"


async def test_a_frozen_generation_is_dead_and_says_nothing(
    echo: tuple[Echo, FaultProxy], caller: Caller
) -> None:
    """F23: old connections hang though the network is fine for new ones."""
    assert echo[1].freeze_generation() == 1
    caller.send("hello?")
    (await connected(echo[1])).writer.close()
    await stays(lambda: echo[0].asked == ["hello", "hello"] and not caller.arrived)
