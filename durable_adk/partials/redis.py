"""Partial events over Redis, for more viewers than a database should tell."""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock, Thread
from typing import Any

from durable_adk.log import get_logger
from durable_adk.partials._redis_library import connected
from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.partial import PartialEvent, encode
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey
from durable_adk.values import canonical

MAX_CHUNK = 32 * 1024
"""Bytes of a chunk; larger ones are lost. A text chunk has some hundred."""
BACKLOG = 2_000
"""Chunks that wait to be sent; of more, the oldest are lost."""
_BATCH = 200
"""Chunks sent at once."""
_PATIENCE = 1.0
"""Seconds that a subscription waits until it hears; the run must not wait for its decoration."""
_SILENCE = 10.0
"""Seconds without a word after which Redis is asked whether it lives; it has half of that."""
_DELAYS = (0.1, 5.0)
"""Seconds before the first new attempt to connect, and the most there may be."""
_IDLE = "durable_adk_partials"
"""A channel of which nobody hears anything: who listens to none cannot be heard either."""

_log = get_logger(__name__)


@dataclass(eq=False)
class _Viewer:
    channel: str
    subscription: Subscription
    ready: "Future[None]" = field(default_factory=Future[None])
    """Done when Redis has said for the first time that it will be told."""


@dataclass(eq=False)
class _Board:
    """What there is to do; filled from any thread, read in the loop that talks to Redis."""

    outgoing: deque[tuple[str, bytes]] = field(
        default_factory=lambda: deque[tuple[str, bytes]](maxlen=BACKLOG)
    )
    news: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    _viewers: list[_Viewer] = field(default_factory=list[_Viewer])
    _lock: Lock = field(default_factory=Lock)

    def enter(self, viewer: _Viewer) -> None:
        """Somebody watches from now on."""
        with self._lock:
            self._viewers.append(viewer)

    def leave(self, viewer: _Viewer) -> None:
        """And no more."""
        with self._lock:
            self._viewers.remove(viewer)

    def viewers(self) -> list[_Viewer]:
        """Who watches now."""
        with self._lock:
            return list(self._viewers)

    def batch(self) -> list[tuple[str, bytes]]:
        """Some of what waits to be sent."""
        size = min(len(self.outgoing), _BATCH)
        return [self.outgoing.popleft() for _ in range(size)]


@dataclass
class _Outage:
    """From when something fails until it works again; each is said once.

    It is over when what failed is done, not when Redis answers: who is let in may still be refused
    a channel, at each attempt anew.
    """

    trying: str = "connect"
    delay: float = _DELAYS[0]
    """Seconds before the next attempt to connect."""
    _failed: str | None = None

    def begin(self, error: Exception) -> None:
        """What is being tried has failed; the error's text may quote the URL."""
        if self._failed is None:
            kind = type(error).__name__
            _log.warning("partials.lost", by="redis", trying=self.trying, error_type=kind)
        self._failed = self.trying

    def done(self, what: str) -> None:
        """A chunk was taken, or a subscription confirmed."""
        if self._failed in ("connect", what):
            _log.info("partials.carried", by="redis")
            self._failed, self.delay = None, _DELAYS[0]

    async def wait(self) -> None:
        """Until it may be tried again, each time longer."""
        await asyncio.sleep(self.delay)
        self.delay = min(self.delay * 2, _DELAYS[1])


class RedisPartials(PartialChannel):
    """The channel of all processes that share a Redis: its publish and subscribe, kept nowhere.

    Each invocation has a channel of its own, whose name is a hash. All work is done in an event
    loop in a thread of its own, as a step's and a viewer's loops come and go. Redis may go away and
    come back at any time: what is sent meanwhile is lost, and nobody waits for it.

    Args:
        url: ``redis://`` or ``rediss://``; never logged.

    Raises:
        InvalidRequestError: The URL cannot be used, or the extra ``redis`` is not installed.
    """

    def __init__(self, url: str) -> None:
        connected(url)  # refused now rather than in a thread
        self._url = url
        self._board = _Board()
        self._lock = Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Thread] | None = None
        self._task: asyncio.Task[None] | None = None
        self._waking = False

    def publish(self, partial: PartialEvent) -> None:
        """See `PartialChannel.publish`."""
        data = encode(partial)
        if data is not None and len(data) <= MAX_CHUNK:
            self._board.outgoing.append((_channel(partial.key, partial.invocation_id), data))
            self._wake()

    @asynccontextmanager
    async def subscribe(self, key: SessionKey, invocation_id: str) -> AsyncGenerator[Subscription]:
        """See `PartialChannel.subscribe`."""
        viewer = _Viewer(_channel(key, invocation_id), Subscription())
        self._board.enter(viewer)
        self._wake()
        try:
            if not self._board.closed:
                await asyncio.wait({asyncio.wrap_future(viewer.ready)}, timeout=_PATIENCE)
            yield viewer.subscription
        finally:
            self._board.leave(viewer)
            self._wake()

    async def close(self) -> None:
        """Let go of Redis; from now on nothing is carried."""
        with self._lock:
            self._board.closed = True
            running, self._running = self._running, None
        if running is not None:
            loop, thread = running
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), loop))
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)
            loop.close()

    def _wake(self) -> None:
        if not self._waking:  # once until the loop has run: a stuck loop collects no callbacks
            self._waking = True
            with self._lock:
                if not self._board.closed:
                    self._running = self._running or _start()
                    self._running[0].call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._waking = False  # before the event, so that what comes from now on wakes again
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._board.news.set()

    async def _end(self) -> None:
        if self._task is not None:
            self._board.news.set()  # what waits is sent, if that is done at once
            await asyncio.wait({self._task}, timeout=_PATIENCE)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        outage = _Outage()
        while True:
            try:
                outage.trying = "connect"
                async with aclosing(connected(self._url)) as redis:
                    await redis.ping()
                    await _Link(self._board, redis, outage).serve()
                    return
            except Exception as error:  # noqa: BLE001 - of the driver
                outage.begin(error)
                if self._board.closed:
                    return
                await outage.wait()


def _start() -> tuple[asyncio.AbstractEventLoop, Thread]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="partials-redis", daemon=True)
    thread.start()
    return loop, thread


class _Link:
    """A connection that sends, and one that listens as soon as somebody does."""

    def __init__(self, board: _Board, redis: Any, outage: _Outage) -> None:
        self._board = board
        self._redis = redis
        self._outage = outage
        self._pubsub = redis.pubsub()
        self._channels: set[str] = set()
        self._asked: set[_Viewer] = set()
        self._unconfirmed: dict[str, deque[list[_Viewer]]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Carry chunks until the end; raises what the driver does when Redis is gone."""
        try:
            while True:
                self._outage.trying = "publish"
                while batch := self._board.batch():
                    await self._send(batch)
                self._outage.trying = "subscribe"
                await self._follow()  # behind what was sent before: that is gone
                if self._board.closed:
                    return
                await self._board.news.wait()
                self._board.news.clear()
                if self._listening is not None and self._listening.done():
                    self._listening.result()
        finally:
            if self._listening is not None:
                self._listening.cancel()
                await asyncio.gather(self._listening, return_exceptions=True)
            await self._pubsub.aclose()

    async def _send(self, batch: list[tuple[str, bytes]]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for channel, data in batch:
            pipeline.publish(channel, data)
        await pipeline.execute()
        self._outage.done("publish")

    async def _follow(self) -> None:
        """Listen to the channels that somebody wants to hear, and to no others.

        Redis is asked anew for each viewer: what it says before it confirms that is of before.
        """
        viewers = self._board.viewers()
        wanted = {viewer.channel for viewer in viewers}
        if left := self._channels - wanted:
            await self._pubsub.unsubscribe(*left)
        self._channels, added = wanted, dict[str, list[_Viewer]]()
        for viewer in viewers:
            if viewer not in self._asked:
                added.setdefault(viewer.channel, []).append(viewer)
        self._asked = set(viewers)
        if added:
            for channel, new in added.items():
                self._unconfirmed.setdefault(channel, deque()).append(new)
            await self._pubsub.subscribe(_IDLE, *added)
            if self._listening is None:
                self._listening = asyncio.ensure_future(self._listen())
                self._listening.add_done_callback(lambda _: self._board.news.set())

    async def _listen(self) -> None:
        asked = False
        while True:
            patience = _SILENCE / 2 if asked else _SILENCE
            message = await self._pubsub.get_message(timeout=patience)
            if message is not None:
                asked = False
                self._hear(message)
            elif asked:
                raise TimeoutError("Redis does not answer.")
            else:
                asked = True
                await self._pubsub.ping()

    def _hear(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self._outage.done("subscribe")
            self._confirm(message["channel"].decode())
        elif message["type"] == "message":
            channel = message["channel"].decode()
            for viewer in self._board.viewers():
                if viewer.channel == channel and viewer.ready.done():
                    viewer.subscription.put(message["data"])

    def _confirm(self, channel: str) -> None:
        asked = self._unconfirmed.get(channel)  # none: it is the idle one
        for viewer in asked.popleft() if asked else ():
            if not viewer.ready.done():
                viewer.ready.set_result(None)
        if asked is not None and not asked:
            del self._unconfirmed[channel]


@lru_cache(maxsize=256)
def _channel(key: SessionKey, invocation_id: str) -> str:
    """A name that tells nobody whose it is."""
    text = canonical([*key, invocation_id])
    return f"{_IDLE}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
