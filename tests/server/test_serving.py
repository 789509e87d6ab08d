"""Connections to a server that listens."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from durable_adk.http import serving
from durable_adk.server.app import app, serve
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import InMemorySessionService
from tests.support.waiting import PATIENCE, until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def head_timeout() -> float:
    """Seconds for which the server waits for a request."""
    return PATIENCE


@pytest.fixture
async def connection(
    head_timeout: float, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Streams]:
    """One to a server."""
    monkeypatch.setattr(serving, "_HEAD_TIMEOUT", head_timeout)
    made = app(
        session_service=InMemorySessionService(),
        client=cast("Any", None),
        apps=["known"],
        settings=ServerSettings(port=0),
    )
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(made, listening=url.set_result))
    host, port = (await url).removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(PATIENCE):
        yield reader, writer
    writer.close()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("head_timeout", [0.2])
@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
async def test_a_connection_that_asks_nothing_is_closed(connection: Streams, sent: bytes) -> None:
    """Else anybody could hold as many as the server may have, without any token."""
    reader, writer = connection
    writer.write(sent)
    assert not (await reader.read()).startswith(b"HTTP/1.1 200")


def upload(length: int) -> bytes:
    """The head of a request with a body."""
    return (
        "POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


async def test_a_body_that_does_not_go_on_arriving_is_not_waited_for(
    connection: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow one is, for as long as it takes."""
    monkeypatch.setattr(serving, "_BODY_TIMEOUT", PATIENCE)
    monkeypatch.setattr(serving, "_BODY_PART", 3)
    begin, due = serving.Protocol._start_body_timeout, list[tuple[serving.Protocol, int]]()

    def begun(protocol: serving.Protocol) -> None:
        begin(protocol)
        due.append((protocol, protocol._received))

    monkeypatch.setattr(serving.Protocol, "_start_body_timeout", begun)
    reader, writer = connection
    writer.write(upload(20))
    for number in range(1, 5):
        await until(lambda: len(due) == number)  # noqa: B023  # it is waited for here
        protocol, before = due[-1]
        writer.write(b"    ")
        await until(lambda: protocol._received == before + 4)  # noqa: B023  # as above
        protocol._check_body(before)  # as when the time is over
    writer.write(b"    ")
    assert (await reader.readline()).startswith(b"HTTP/1.1 422")  # no JSON
    while not reader.at_eof() and await reader.readline() != b"\r\n":
        pass
    monkeypatch.setattr(serving, "_BODY_TIMEOUT", 0.2)
    writer.write(upload(20) + b" ")
    async with asyncio.timeout(PATIENCE):
        assert b"HTTP/1.1" not in await reader.read()


async def test_a_large_head_is_refused(connection: Streams) -> None:
    """Before it is complete: it would be kept in memory, whatever its size."""
    reader, writer = connection
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + 100_000 * b"x")
    with contextlib.suppress(ConnectionError):  # what it does not read resets the connection
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")


async def test_an_offer_of_http_2_is_passed_over(connection: Streams) -> None:
    """Java's client sends one with its first request; the body is read, and the connection kept."""
    reader, writer = connection
    body = json.dumps({"appName": "missing", "userId": "u", "sessionId": "s"})
    head = (
        "POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    for more in (offer, ""):
        writer.write(f"{head}{more}\r\n{body}".encode())
        response = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = response.partition("content-length: ")[2].partition("\r")[0]
        said = json.loads(await reader.readexactly(int(length)))
        assert said["error"]["type"] == "UnknownAppError"


@pytest.mark.parametrize("size", [1, 40])
async def test_a_body_in_many_small_pieces_is_refused(connection: Streams, size: int) -> None:
    """Each costs as much as a large one: thousands that arrive at once would hold up all others."""
    reader, writer = connection
    head = upload(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    piece = f"{size:x}\r\n".encode() + b" " * size + b"\r\n"
    whole = head + piece * 900 + b"0\r\n\r\n"
    for _ in range(3):  # few pieces of each are no reason
        writer.write(whole)
        response = await reader.readuntil(b"\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 422"), response
        length = response.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await reader.readexactly(int(length))
    writer.write(head + piece * 20_000)
    with contextlib.suppress(ConnectionError):  # what it does not read resets the connection
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")


async def test_what_comes_behind_a_refusal_is_no_failure(connection: Streams) -> None:
    """Bytes that are no request, of a connection that has its response, leave no traceback."""
    failures, loop = list[Any](), asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    reader, writer = connection
    head = upload(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    writer.write(head.replace(b"localhost", b"elsewhere"))
    assert (await reader.readline()).startswith(b"HTTP/1.1 403")
    writer.write(b"no length\r\n")
    with contextlib.suppress(ConnectionError):
        await reader.read()
    assert failures == []
