"""Connections to a codec server that listens."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from http import HTTPStatus
from urllib.parse import urlsplit

import pytest

from durable_adk.http import serving
from durable_adk.ops.codec_server import Access, Decoder, codec_application, serve
from durable_adk.ops.codec_server.application import CONCURRENCY
from tests.support.waiting import PATIENCE, until

ACCESS = Access()
BODY = b'{"payloads":[]}'
HEAD = (
    "POST /decode HTTP/1.1\r\nHost: localhost\r\n"
    "Content-Type: application/json\r\n"
    f"Authorization: Bearer {ACCESS.token}\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode()
OTHER = HEAD.replace(b"Bearer ", b"Bearer not-")
HEAD_TIMEOUT = 1.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """Where a server listens that has little patience."""
    monkeypatch.setattr(serving, "_HEAD_TIMEOUT", HEAD_TIMEOUT)
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    made = codec_application(Decoder(), ACCESS)
    task = asyncio.create_task(serve(made, host="127.0.0.1", port=0, listening=heard.set_result))
    yield urlsplit(await heard).port or 0
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def spoken(port: int, data: bytes) -> Streams:
    """A connection on which that was sent before the server looked, however slow this machine."""
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(data)
    return await asyncio.open_connection(sock=made)


async def status(reader: asyncio.StreamReader) -> int:
    """That of the next answer, which is read whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    return int(head.split()[1])


async def asked(port: int) -> int:
    """What somebody with the token is answered."""
    reader, writer = await spoken(port, HEAD + BODY)
    with contextlib.closing(writer):
        return await status(reader)


async def ended(streams: Streams, *, dripping: bytes = b"") -> None:
    """Wait for the end of a connection, on which a byte is sent now and then."""
    reader, writer = streams
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while not reader.at_eof():
            writer.write(dripping)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1_000), 0.1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sent", "dripping"),
    [(b"", b""), (HEAD[:-2], b""), (HEAD[:-2], b"x"), (OTHER, b""), (OTHER, b"x")],
    ids=["silent", "half a head", "an endless head", "no body", "a slow body"],
)
async def test_who_has_no_token_cannot_keep_others_out(
    port: int, sent: bytes, dripping: bytes
) -> None:
    """S16: as many connections as there may be are ended when they ask nothing, or no more."""
    most = CONCURRENCY - 1  # with one more, a client with the token gets 503
    streams = [await spoken(port, sent) for _ in range(most)]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(ended(one, dripping=dripping) for one in streams))

    async def is_answered() -> bool:
        return await asked(port) == HTTPStatus.OK

    await until(is_answered)  # until the server has seen their ends


@pytest.mark.thorough
async def test_who_has_asked_may_take_time(port: int) -> None:
    """D16: a slow body is waited for, also that of a second request of the connection."""
    reader, writer = await spoken(port, HEAD)
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(PATIENCE):
        for more in (HEAD, b""):
            late = now() + 2 * HEAD_TIMEOUT
            await until(lambda late=late: now() > late)
            writer.write(BODY + more)
            assert await status(reader) == 200
        await ended((reader, writer))


async def test_a_response_is_sent_at_once() -> None:
    """A connection has Nagle's algorithm off, which delays a body behind its headers by 40 ms."""
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made = writer.get_extra_info("socket")
        accepted.set_result(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    accepting = serving.listener("127.0.0.1", 0)
    async with await asyncio.start_server(note, sock=accepting):
        _, writer = await asyncio.open_connection(*accepting.getsockname())
        with contextlib.closing(writer):
            assert await accepted
