"""Partial events between processes that share a Redis."""

import asyncio
import os
import ssl
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis.asyncio.client import PubSub

from campaign.proxy import FaultProxy
from durable_adk.partials import RedisPartials, Subscription, redis
from durable_adk.partials.redis import connected
from tests.support.bounds import bounded, within
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.redis import PASSWORD, Open, RedisServer, channels, running
from tests.support.waiting import PATIENCE, forever, until

ROOT = Path(__file__).parents[3]
PUBLISH = """
import asyncio, sys
from durable_adk.partials import RedisPartials
from tests.support.chunks import chunk

async def main():
    channel = RedisPartials(sys.argv[1])
    for index, text in enumerate(["a", "\\u6771" * 9_000, "c" * 40_000, "d"]):
        channel.publish(chunk(text, index))
    await channel.close()

asyncio.run(main())
"""


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Make channels that are closed at the end."""
    async with channels() as make:
        yield make


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[FaultProxy]:
    """A way to Redis that can be broken."""
    made = FaultProxy(redis_server.port)
    await made.start()
    yield made
    await made.close()


async def heard_again(viewer: Subscription, publish: RedisPartials) -> None:
    """Publish until some of what is published from now on arrives."""
    text = uuid.uuid4().hex

    def heard() -> bool:
        publish.publish(chunk(text))
        return text in [one.event.text for one in viewer.drain()]

    await until(heard)


async def test_another_process_is_heard(redis_server: RedisServer, opened: Open) -> None:
    """D8: whole and in order, when it ends right afterwards; what is too large is left out."""
    async with opened(redis_server.url()).subscribe(KEY, INVOCATION) as viewer:
        command = [sys.executable, "-c", PUBLISH, redis_server.url()]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        await asyncio.to_thread(subprocess.run, command, check=True, env=env, timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            heard = [await viewer.get() for _ in range(3)]
    assert [one.index for one in heard] == [0, 1, 3]
    assert heard[1].event.text == "\u6771" * 9_000


async def test_many_viewers_are_told_over_one_connection(
    redis_server: RedisServer, opened: Open
) -> None:
    """D8: each gets its own invocation's chunks; a second one of an invocation need not wait."""
    channel, other = opened(redis_server.url()), opened(redis_server.url())
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        viewers = [
            await stack.enter_async_context(channel.subscribe(KEY, f"e-{number // 2}"))
            for number in range(100)
        ]
        for number in range(50):
            made = chunk(f"text {number}").model_copy(update={"invocation_id": f"e-{number}"})
            other.publish(made)
        for number, viewer in enumerate(viewers):
            assert (await viewer.get()).event.text == f"text {number // 2}"
        assert not any(viewer.drain() for viewer in viewers)


# The driver reconnects by itself, at times for two tasks at once. Of the two connections, one is
# closed only when it is collected.
@pytest.mark.filterwarnings(
    "ignore:.*StreamWriter.__del__:pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed <StreamWriter:ResourceWarning",
)
@bounded
async def test_a_redis_that_comes_back_is_used_again(
    redis_server: RedisServer, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """D8: after its end and its new start, by those who watch and by those who publish.

    That is said once each, without its password. A connection may be lost again after it is back.
    """
    caplog.set_level("INFO")
    watching, publishing = opened(redis_server.url()), opened(redis_server.url())
    async with watching.subscribe(KEY, INVOCATION) as viewer:
        publishing.publish(chunk("before"))
        async with asyncio.timeout(PATIENCE):
            await viewer.get()
        await redis_server.kill()
        with within(5, "a hundred chunks are published without a Redis"):
            for index in range(100):
                publishing.publish(chunk("meanwhile", index))  # which waits for no Redis
        await until(lambda: caplog.text.count("partials.lost") == 2)
        await redis_server.start()
        await heard_again(viewer, publishing)
    outage, back, _ = caplog.text.partition("partials.carried")
    assert back
    assert outage.count("partials.lost") == 2
    assert PASSWORD not in str([vars(record) for record in caplog.records])


@pytest.mark.thorough
@pytest.mark.parametrize("refused", ["resetchannels", "-publish", "-subscribe"])
async def test_a_redis_that_refuses_is_not_asked_again_and_again(
    opened: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """D8: a user that may enter but not use a channel is reported once, and retried more seldom.

    What it may do does not count as success of what it may not; with the right, it is used again.
    """
    caplog.set_level("INFO")
    delays: dict[str, list[float]] = {}
    failed = redis._Attempts.failed

    async def counted(attempts: redis._Attempts, error: Exception) -> None:
        delays.setdefault(attempts.what, []).append(attempts._delay)
        await failed(attempts, error)

    monkeypatch.setattr(redis._Attempts, "failed", counted)
    async with running() as server, aclosing(connected(server.url())) as admin:
        user = ("ACL", "SETUSER", "app", "on", f">{PASSWORD}", "+@all", "allchannels")
        await admin.execute_command(*user, refused)
        before = (await admin.info("stats"))["total_connections_received"]
        channel = opened(f"redis://app:{PASSWORD}@127.0.0.1:{server.port}/0")
        async with channel.subscribe(KEY, INVOCATION) as viewer:

            def is_tried() -> bool:
                channel.publish(chunk("refused"))
                return any(len(tried) >= 5 for tried in delays.values())

            await until(is_tried)
            for tried in delays.values():
                assert tried == [0.1 * 2**n for n in range(len(tried))]
            made = (await admin.info("stats"))["total_connections_received"] - before
            assert 2 <= made <= 4 + 2 * sum(map(len, delays.values()))
            assert caplog.text.count("partials.lost") == 1
            assert "partials.carried" not in caplog.text
            await admin.execute_command(*user)
            await heard_again(viewer, channel)
            await until(lambda: "partials.carried" in caplog.text)
    assert caplog.text.count("partials.carried") == 1


async def test_a_connection_that_says_nothing_any_more_is_given_up(
    redis_server: RedisServer, opened: Open, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F23: a viewer behind a network that swallows everything asks, and then comes anew."""
    monkeypatch.setattr(redis, "_SILENCE", 0.4)
    watching, publishing = opened(redis_server.url(proxy.port)), opened(redis_server.url())
    async with watching.subscribe(KEY, INVOCATION) as viewer:
        await heard_again(viewer, publishing)
        assert proxy.freeze_generation()
        await heard_again(viewer, publishing)


async def test_a_viewer_waits_a_moment_at_most(
    opened: Open, proxy: FaultProxy, redis_server: RedisServer
) -> None:
    """D8: the run continues without its chunks while Redis does not answer, which it never does."""
    channel = opened(redis_server.url(proxy.port))
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        await heard_again(viewer, channel)
    proxy.black_hole()
    async with asyncio.timeout(PATIENCE), channel.subscribe(KEY, "e-2") as viewer:
        assert viewer.drain() == []


async def test_nothing_is_under_way_any_more_when_it_is_closed(
    redis_server: RedisServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D8: not even if the driver swallows a cancellation, as it does while it disconnects."""
    real, swallowed = PubSub.get_message, list[int]()

    async def get_message(pubsub: PubSub, **options: Any) -> Any:
        try:
            return await real(pubsub, **options)
        except asyncio.CancelledError:
            if swallowed:
                raise
            swallowed.append(1)
            await forever()

    monkeypatch.setattr(PubSub, "get_message", get_message)
    channel = opened(redis_server.url())
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        await heard_again(viewer, channel)
    assert channel._running is not None
    loop, _ = channel._running
    await channel.close()
    assert swallowed
    assert not asyncio.all_tasks(loop)


async def test_a_closed_channel_carries_nothing(redis_server: RedisServer, opened: Open) -> None:
    """D8: nor does it raise, or wait."""
    channel = opened(redis_server.url())
    await channel.close()
    channel.publish(chunk("a"))
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        assert viewer.drain() == []
    assert channel._running is None


def certificate(folder: Path) -> Path:
    """Key and certificate of 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "localhost.pem"
    path.write_bytes(private + made.public_bytes(pem))
    return path


async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, until its end."""
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def tls_before(port: int, pem: Path) -> AsyncIterator[int]:
    """The port of a TLS listener before another port."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        ways: list[Awaitable[None]] = [passed(reader, outer), passed(inner, writer)]
        await asyncio.gather(*ways, return_exceptions=True)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_tls_is_spoken_and_the_server_must_be_the_one_that_is_named(
    redis_server: RedisServer, opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S14: `rediss://` verifies; another server receives nothing."""
    pem = certificate(tmp_path)
    async with tls_before(redis_server.port, pem) as port:
        url = f"rediss://:{PASSWORD}@localhost:{port}/0"
        trusting, strict = opened(f"{url}?ssl_ca_certs={pem}"), opened(url)
        async with trusting.subscribe(KEY, INVOCATION) as viewer:
            await heard_again(viewer, trusting)
            viewer.drain()
            strict.publish(chunk("secret"))
            await until(lambda: "partials.lost" in caplog.text)  # it has tried
            await strict.close()
            trusting.publish(chunk("last"))
            texts = [""]
            async with asyncio.timeout(PATIENCE):
                while texts[-1] != "last":
                    texts.append((await viewer.get()).event.text)
            assert "secret" not in texts
        await trusting.close()
