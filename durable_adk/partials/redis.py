"""Partial events over Redis, for more viewers than a database should notify."""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from durable_adk.errors import InvalidRequestError
from durable_adk.extras import Absent, require
from durable_adk.log import get_logger
from durable_adk.partials.channel import PREFIX, REPLAYS, PartialChannel, channel_name
from durable_adk.partials.partial import PartialEvent, encode
from durable_adk.partials.replay import Replays
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey

try:
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError:
    if TYPE_CHECKING:
        raise
    Redis = Retry = NoBackoff = Absent

MAX_CHUNK = 32 * 1024
"""Maximum size of a chunk in bytes; larger ones are dropped. A text chunk has a few hundred."""
BACKLOG = 2_000
"""Maximum number of queued chunks; beyond it the oldest are dropped."""
_SCHEMES = ("redis://", "rediss://")
_ANSWER = 5.0
"""Timeout in seconds for connecting, and for a reply."""
_BATCH = 200
"""Chunks per pipeline."""
_READY_TIMEOUT = 1.0
"""Seconds to wait until a subscription is active; streaming must not hold up the run."""
_SILENCE = 10.0
"""Seconds of silence before a ping; Redis has half of that to reply."""
_DELAYS = (0.1, 5.0)
"""First and maximum retry delay in seconds."""
_IDLE = PREFIX
"""A channel without messages: a client without subscriptions cannot wait for messages or pings."""

_log = get_logger(__name__)


@dataclass(frozen=True)
class _Requests:
    """Receives the names of channels to which new viewers have subscribed."""

    replays: Replays

    def put(self, data: bytes) -> None:
        self.replays.request(data.decode(errors="replace"))


@dataclass(eq=False)
class _Viewer:
    channel: str
    subscription: Subscription | _Requests
    ready: "Future[None]" = field(default_factory=Future[None])
    """Done when Redis has confirmed the subscription."""


@dataclass
class _Attempts:
    """Retries of publishing or subscribing, with exponential backoff.

    Redis may accept a connection and still deny a channel. Therefore only a success of the same
    operation ends its outage.
    """

    what: str
    failing: set[str]
    """Operations failing now, shared by both; logged at the first failure and at full recovery."""
    _delay: float = _DELAYS[0]

    async def failed(self, error: Exception) -> None:
        """Wait before the next retry; log no error text, since it may quote the URL."""
        if not self.failing:
            kind = type(error).__name__
            _log.warning("partials.lost", by="redis", trying=self.what, error_type=kind)
        self.failing.add(self.what)
        await asyncio.sleep(self._delay)
        self._delay = min(self._delay * 2, _DELAYS[1])

    def succeeded(self) -> None:
        """Record that a chunk was accepted or a subscription confirmed."""
        if self.failing == {self.what}:
            _log.info("partials.carried", by="redis")
        self.failing.discard(self.what)
        self._delay = _DELAYS[0]


class _Loop(asyncio.SelectorEventLoop):
    """Resolves names in daemon threads, so that shutdown does not wait for a resolver.

    asyncio does so in an executor, which `asyncio.Runner` and the interpreter's exit join.
    """

    async def getaddrinfo(self, host: Any, port: Any, **options: int) -> list[Any]:
        """See base class."""
        found = Future[list[Any]]()
        found.set_running_or_notify_cancel()  # cannot be cancelled from now on

        def look_up() -> None:
            try:
                found.set_result(socket.getaddrinfo(host, port, **options))
            except Exception as error:  # noqa: BLE001 - a name may also be malformed
                found.set_exception(error)

        Thread(target=look_up, name="partials-redis-lookup", daemon=True).start()
        return await asyncio.wrap_future(found)


class RedisPartials(PartialChannel):
    """Channel for processes that share a Redis server, based on publish/subscribe.

    Each invocation has its own channel, whose name is a hash. All work runs in an event loop in a
    dedicated thread, because the loops of steps and viewers are short-lived. Redis may become
    unavailable and return at any time: chunks sent meanwhile are lost, and no caller blocks.

    Args:
        url: ``redis://`` or ``rediss://``; never logged.

    Raises:
        InvalidRequestError: The URL cannot be used, or the extra ``redis`` is not installed.
    """

    def __init__(self, url: str) -> None:
        self._redis = connected(url)
        self._lock = Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Thread] | None = None
        self._closed = False
        self._outgoing: deque[tuple[str, bytes]] = deque(maxlen=BACKLOG)
        self._waking = False
        self._replays, self._listening = Replays(), False
        # Everything below is used only by the loop in the thread.
        self._wakeup, self._moved, self._closing = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._viewers: list[_Viewer] = []
        self._confirmed: set[str] = set()
        failing: set[str] = set()
        self._publishing = _Attempts("publish", failing)
        self._subscribing = _Attempts("subscribe", failing)

    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        """See `PartialChannel.publish`."""
        with self._lock:
            listening, self._listening = self._listening, True
        if not listening:
            self._in_loop(self._enter, _Viewer(REPLAYS, _Requests(self._replays)))
        channel = channel_name(partial.key, partial.invocation_id)
        for chunk in self._replays.chunks(channel, partial, earlier, again=again):
            data = encode(chunk)
            if data is not None and len(data) <= MAX_CHUNK:
                self._queue(channel, data)

    def _queue(self, channel: str, data: bytes) -> None:
        self._outgoing.append((channel, data))
        if not self._waking:  # at most one callback is pending, even if the loop is stuck
            self._waking = True
            self._in_loop(self._wake)

    @asynccontextmanager
    async def subscribe(self, key: SessionKey, invocation_id: str) -> AsyncGenerator[Subscription]:
        """See `PartialChannel.subscribe`."""
        subscription = Subscription()
        viewer = _Viewer(channel_name(key, invocation_id), subscription)
        if self._in_loop(self._enter, viewer):
            await asyncio.wait({asyncio.wrap_future(viewer.ready)}, timeout=_READY_TIMEOUT)
            self._queue(REPLAYS, viewer.channel.encode())
        try:
            yield subscription
        finally:
            self._in_loop(self._leave, viewer)

    async def close(self) -> None:
        """Disconnect from Redis; nothing is delivered afterwards."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None:
            loop, thread = running
            loop.call_soon_threadsafe(self._closing.set)
            await asyncio.to_thread(thread.join)

    def _in_loop(self, work: Callable[..., None], *arguments: Any) -> bool:
        """Schedule work in the thread; return False once the channel is closed."""
        with self._lock:
            if not self._closed:
                self._running = self._running or self._start()
                self._running[0].call_soon_threadsafe(work, *arguments)
            return not self._closed

    def _start(self) -> tuple[asyncio.AbstractEventLoop, Thread]:
        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._serve())

        loop = _Loop()
        thread = Thread(target=run, name="partials-redis", daemon=True)
        thread.start()
        return loop, thread

    def _wake(self) -> None:
        self._waking = False  # before the event, so that later chunks wake the loop again
        self._wakeup.set()

    def _enter(self, viewer: _Viewer) -> None:
        self._viewers.append(viewer)
        if viewer.channel in self._confirmed:
            viewer.ready.set_result(None)
        self._moved.set()

    def _leave(self, viewer: _Viewer) -> None:
        self._viewers.remove(viewer)
        self._moved.set()

    async def _serve(self) -> None:
        send, listen = asyncio.create_task(self._send()), asyncio.create_task(self._listen())
        await self._closing.wait()
        self._wakeup.set()  # flush queued chunks, if that succeeds within the timeout
        self._moved.set()
        await asyncio.wait({send, listen}, timeout=_READY_TIMEOUT)
        send.cancel()
        listen.cancel()
        await asyncio.gather(send, listen, return_exceptions=True)
        await self._redis.aclose()
        await asyncio.sleep(0)  # transports close their sockets in the next round of the loop

    async def _send(self) -> None:
        """Publish queued chunks."""
        while self._outgoing or not self._closed:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._outgoing:
                pipeline = self._redis.pipeline(transaction=False)
                for _ in range(min(len(self._outgoing), _BATCH)):
                    pipeline.publish(*self._outgoing.popleft())
                try:
                    await pipeline.execute()
                    self._publishing.succeeded()
                except Exception as error:  # noqa: BLE001 - of the driver
                    await self._publishing.failed(error)

    async def _listen(self) -> None:
        """Receive messages once there is a viewer; reconnect when the connection breaks."""
        await self._moved.wait()
        while not self._closed:
            try:
                async with self._redis.pubsub() as pubsub:
                    await self._follow(pubsub)
            except Exception as error:  # noqa: BLE001 - of the driver
                self._confirmed.clear()
                await self._subscribing.failed(error)

    async def _follow(self, pubsub: Any) -> None:
        """Keep the subscribed channels equal to those that have viewers."""
        await pubsub.subscribe(_IDLE)
        followed = set[str]()
        receiving = asyncio.create_task(self._receive(pubsub))
        receiving.add_done_callback(self._end_following)
        try:
            # Not a task group, which cancels only once.
            while not self._closed and not receiving.done():
                self._moved.clear()
                wanted = {viewer.channel for viewer in self._viewers}
                if left := followed - wanted:
                    self._confirmed -= left
                    await pubsub.unsubscribe(*left)
                if new := wanted - followed:
                    await pubsub.subscribe(*new)
                followed = wanted
                await self._moved.wait()
        finally:
            while not receiving.done():  # the driver may swallow a cancellation
                receiving.cancel()
                await asyncio.wait({receiving}, timeout=_READY_TIMEOUT)
        if not receiving.cancelled():
            receiving.result()

    def _end_following(self, receiving: "asyncio.Task[None]") -> None:
        if not receiving.cancelled():
            receiving.exception()  # marks it as retrieved, in case subscribing fails first
        self._moved.set()

    async def _receive(self, pubsub: Any) -> None:
        while True:
            message = await pubsub.get_message(timeout=_SILENCE)
            if message is None:
                await pubsub.ping()
                message = await pubsub.get_message(timeout=_SILENCE / 2)
            if message is None:
                raise TimeoutError("Redis does not answer.")
            channel = (message["channel"] or b"").decode()
            viewers = [viewer for viewer in self._viewers if viewer.channel == channel]
            if message["type"] == "subscribe":
                self._subscribing.succeeded()
                self._confirmed.add(channel)
                for viewer in viewers:
                    if not viewer.ready.done():
                        viewer.ready.set_result(None)
            elif message["type"] == "message":
                for viewer in viewers:
                    viewer.subscription.put(message["data"])


def connected(url: str) -> Any:
    """Create a client that connects lazily and does not retry.

    Typed as Any because the library types its commands as a union of sync and async results.

    Raises:
        InvalidRequestError: The library is not installed, or the URL cannot be used. The message
            does not quote the URL, which may contain a password.
    """
    require("redis")
    try:
        if url.startswith(_SCHEMES):
            return Redis.from_url(  # pyright: ignore[reportUnknownMemberType]: its keywords have no types
                url,
                socket_connect_timeout=_ANSWER,
                socket_timeout=_ANSWER,
                socket_keepalive=True,
                health_check_interval=0,
                retry=Retry(NoBackoff(), 0),
            )
    except (ValueError, TypeError, AttributeError):
        pass
    raise InvalidRequestError(
        "The place of the partial events must be redis://host:port/0, or rediss:// for TLS, with "
        "user:password@ before the host if need be."
    )
