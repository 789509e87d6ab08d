"""One user at every limit, and strangers at theirs: others are served all the same."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from google.genai import types

from durable_adk.events import Event
from durable_adk.http import serving
from durable_adk.server.app import app, serve
from durable_adk.server.routes.body import session_as_json
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import InMemorySessionService
from durable_adk.sessions.log import feed
from tests.server.test_authentication import OTHER, TOKEN, bearer, digest
from tests.support.waiting import PATIENCE, until

ALICE, BOB = bearer(OTHER), bearer(TOKEN)
CONNECTIONS, OPEN, BURST = 16, 6, 40
LARGE = 12_000_000
"""Bytes of an answer that the system does not take off the server's hands."""
SESSIONS = "/apps/app/users/bob/sessions"


async def healthy() -> None:
    """In the place of a look at Temporal."""


@pytest.fixture
async def url(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.URL]:
    """Where a server with low limits listens; a session of Bob has a large artifact."""
    monkeypatch.setattr(serving, "max_connections", lambda: CONNECTIONS)
    client = SimpleNamespace(service_client=SimpleNamespace(check_health=healthy))
    users = [{"user": "alice", "sha256": digest(OTHER)}, {"user": "bob", "sha256": digest(TOKEN)}]
    limits = {
        "max_open_requests": OPEN,
        "max_unread_bytes": LARGE,
        "requests_per_second": 1e-6,
        "burst": BURST,
    }
    made = app(
        session_service=InMemorySessionService(),
        client=cast("Any", client),
        apps=["app"],
        settings=ServerSettings.model_validate({"port": 0, "tokens": users, **limits}),
    )
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(made, listening=heard.set_result))
    yield httpx.URL(await heard)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def opened(url: httpx.URL, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Send a request, and read no more than the head of its answer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (url.host, url.port))
    reader, writer = await asyncio.open_connection(sock=made, limit=1_024)
    head = [f"GET {path} HTTP/1.1", "Host: localhost"]
    head += [f"{name}: {text}" for name, text in headers.items()]
    writer.write("\r\n".join([*head, "", ""]).encode())
    return int((await reader.readline()).split()[1]), (reader, writer)


async def shut(writer: asyncio.StreamWriter) -> None:
    """Close a connection, which the server may have closed before."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def keep(http: httpx.AsyncClient) -> None:
    """Store the large artifact."""
    assert (await http.post(SESSIONS, json={"sessionId": "s"}, headers=BOB)).status_code == 200
    artifact = {"filename": "f", "artifact": {"text": "x" * LARGE}}
    kept = await http.post(f"{SESSIONS}/s/artifacts", json=artifact, headers=BOB)
    assert kept.status_code == 200, kept.text


async def test_others_are_served_while_one_user_is_at_every_limit(url: httpx.URL) -> None:
    """S16: open requests, unread answers, connections, values, bytes, requests; and 401s."""
    file = f"{SESSIONS}/s/artifacts/f"
    held = list[Any]()
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        await keep(http)
        many = json.dumps({"newMessage": {"parts": [1] * 100_000}})
        typed = {**BOB, "Content-Type": "application/json"}
        assert (await http.post("/run", content=many, headers=typed)).status_code == 413
        statuses = list[int]()
        for path in (file, file, *["/changes"] * OPEN):
            status, streams = await opened(url, path, BOB)
            statuses.append(status)
            held.append(streams)
        assert statuses == [200, 429, *[200] * (OPEN - 1), 429]
        strangers = [
            await asyncio.open_connection(url.host, url.port) for _ in range(2 * CONNECTIONS)
        ]
        held += strangers
        # Who asks nothing is closed for others, long before its time is over.
        ends = [asyncio.create_task(reader.read()) for reader, _ in strangers]
        await until(lambda: sum(one.done() for one in ends) >= CONNECTIONS + OPEN)
        refused = [(await http.get("/caller", headers=BOB)).status_code for _ in range(BURST)]
        assert set(refused) == {429}
        wrong = [(await http.get("/caller")).status_code for _ in range(BURST + 5)]
        assert wrong == [401] * BURST + [429] * 5
    for path in ("/health", "/ready", "/caller", "/apps/app/users/alice/sessions"):
        for _ in range(3):  # each over a new connection
            async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
                answer = await http.get(path, headers=ALICE)
                assert answer.status_code == 200, (path, answer.text)
    for _, writer in held:
        await shut(writer)
    await asyncio.gather(*ends, return_exceptions=True)


async def test_an_answer_that_nobody_takes_is_dropped(
    url: httpx.URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stay in memory as long as the client keeps the connection."""
    monkeypatch.setattr(serving, "_READ_TIMEOUT", 0.5)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        await keep(http)
    lost, ends = list[object](), serving.Protocol.connection_lost

    def lose(protocol: serving.Protocol, error: Exception | None) -> None:
        ends(protocol, error)
        if protocol.cycle.scope["method"] == "GET":
            lost.append(protocol)

    monkeypatch.setattr(serving.Protocol, "connection_lost", lose)
    status, (_, writer) = await opened(url, f"{SESSIONS}/s/artifacts/f", BOB)
    assert status == 200
    await until(lambda: lost)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:

        async def read() -> bool:
            answer = await http.get(f"{SESSIONS}/s/artifacts/f", headers=BOB)
            return len(answer.content) > LARGE

        await until(read)  # who reads gets all of it, once the other is forgotten
    await shut(writer)


async def test_a_large_session_delays_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events are parsed in a thread, and others are served between those that are written."""
    service, names = InMemorySessionService(), {"app_name": "a", "user_id": "u", "session_id": "s"}
    session = await service.create_session(**names, state={"events": []})
    for _ in range(5):
        text = types.Part(text="x" * 150_000)
        content = types.Content(role="user", parts=[text])
        await service.append_event(session, Event(author="user", content=content))
    threads, parse = set[int](), feed.decode_event

    def watched(body: str) -> Event:
        threads.add(threading.get_ident())
        return parse(body)

    monkeypatch.setattr(feed, "decode_event", watched)
    found = await service.get_session(**names)
    assert found is not None
    assert threading.get_ident() not in threads
    assert threads
    writing, turns = asyncio.create_task(session_as_json(found)), 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(found.events)
    assert json.loads(writing.result().body) == found.to_value()
