"""Partial events between processes that share a Redis."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator

import pytest

from durable_adk.errors import InvalidRequestError
from durable_adk.partials import RedisPartials, redis
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.redis import Open, channels, free_port
from tests.support.waiting import PATIENCE


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Make channels that are closed at the end."""
    async with channels() as make:
        yield make


@pytest.mark.thorough
async def test_publishing_never_waits(opened: Open) -> None:
    """D8: from any thread, with a Redis that is away: what is too much is lost, and no error."""
    away = opened(f"redis://127.0.0.1:{free_port()}")

    def publish() -> None:
        for index in range(2 * redis.BACKLOG):
            away.publish(chunk("a", index))

    thread = threading.Thread(target=publish)
    thread.start()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    assert len(away._outgoing) <= redis.BACKLOG
    async with asyncio.timeout(PATIENCE), away.subscribe(KEY, INVOCATION) as viewer:
        assert viewer.drain() == []


async def test_closing_does_not_wait_for_a_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the end of the process, for which a worker's supervisor waits."""
    asked, answered, threads = threading.Event(), threading.Event(), list[threading.Thread]()

    def look_up(*_: object, **__: object) -> None:
        threads.append(threading.current_thread())
        asked.set()
        answered.wait(10 * PATIENCE)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(redis, "_READY_TIMEOUT", 0.1)
    channel = RedisPartials("redis://redis.invalid")
    channel.publish(chunk("a"))
    assert await asyncio.to_thread(asked.wait, PATIENCE)
    try:
        async with asyncio.timeout(PATIENCE):
            await channel.close()
    finally:
        answered.set()
    assert all(one.daemon for one in threads)
    for one in threads:
        await asyncio.to_thread(one.join, PATIENCE)


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@x",
        "hunter2",
        "redis://:hunter2@host:port",
        "redis://:hunter2@h:6379/0?socket_timeout=no",
    ],
)
def test_a_url_that_cannot_be_used_is_not_quoted(url: str) -> None:
    """S14: there may be a password in it."""
    with pytest.raises(InvalidRequestError, match="redis://") as caught:
        RedisPartials(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
