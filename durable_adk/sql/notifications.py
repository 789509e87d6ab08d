"""Short messages between the processes that share a PostgreSQL database.

A message is a hint to read the database, or data that is worthless a second later. Any message may
be lost: with a connection, with a process, or because the backlog is full. A listener must
therefore also poll from time to time, and read whenever `Listener.resumed` reports a possible loss.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from durable_adk.log import get_logger

_log = get_logger(__name__)

MAX_BYTES = 7_500
"""Maximum size of a message's text in bytes of UTF-8; PostgreSQL's limit is 8,000."""
BACKLOG = 2_000
"""Maximum number of unsent messages; beyond it the oldest are dropped."""
_BATCH = 200
"""Messages sent in one statement."""
_PING = 10.0
"""Idle seconds after which the connection is checked."""
_TIMEOUT = 5.0
"""Timeout of a statement in seconds."""
_DELAYS = (0.1, 5.0)
"""First and maximum delay in seconds before a reconnect."""
_TOLERATED = 10.0
"""Seconds without a connection before a warning is logged; a database restart is shorter."""
_ARRIVAL = 10.0
"""Seconds within which a probe sent by another database session must arrive."""
_PROBED_AGAIN = 60.0
"""Seconds between failed probes."""
_REMEDY = (
    "Feeds are late, and chunks of answers that other processes stream are lost. Nothing arrives "
    "through a pooler in transaction mode: give DURABLE_ADK_STORE the database itself, or a pooler "
    "in session mode."
)

# Sends all messages in one transaction. PostgreSQL keeps their order and drops duplicates.
_SEND = (
    "SELECT pg_notify(channel, message) "
    "FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given(channel, message, place) "
    "ORDER BY place"
)

Connect = Callable[[], AbstractAsyncContextManager[Any]]


class Message(NamedTuple):
    """A message and its channel."""

    channel: str
    text: str


@dataclass(eq=False, kw_only=True)
class Listener:
    """A subscription to a channel; both callbacks run in the database's event loop."""

    channel: str
    on_message: Callable[[int, str], None]
    """Called with the sending connection's number and the text of each message."""
    resumed: Callable[[], None] = lambda: None
    """Called whenever listening starts or restarts; messages sent before may be lost."""
    ready: "Future[None]" = field(default_factory=Future[None])
    """Done once listening has started for the first time."""


class _Arrival:
    """Logs once when messages stop arriving, and once when they arrive again."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._logged = False

    def unconnected(self, error: Exception) -> None:
        """Record a failed or lost connection."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= _TOLERATED:
            self._lost("no connection", type(error).__name__)

    def found(self, *, arrives: bool) -> None:
        """Record whether messages arrive over an open connection."""
        if not arrives:
            self._lost("nothing arrives")
            return
        if self._logged:
            _log.info("notices.arrive")
        self._since, self._logged = None, False

    def _lost(self, reason: str, error_type: str | None = None) -> None:
        if not self._logged:
            _log.warning("notices.lost", reason=reason, error_type=error_type, remedy=_REMEDY)
        self._logged = True


class Notifications:
    """One connection that sends and listens for a whole process, opened at the first use.

    Args:
        loop: Returns the connection's event loop, starting it if necessary.
        connect: Opens an asyncpg connection.
    """

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop], connect: Connect) -> None:
        self._loop = loop
        self._connect = connect
        self._lock = Lock()
        self._listeners: list[Listener] = []
        self._outgoing: deque[Message] = deque(maxlen=BACKLOG)
        self._news = asyncio.Event()
        self._waking: asyncio.AbstractEventLoop | None = None
        """The loop in which `_look` is scheduled; it may end first."""
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._arrival = _Arrival()

    def send(self, channel: str, *texts: str) -> None:
        """Send messages of at most `MAX_BYTES` each; thread-safe, never blocks or raises."""
        # As one extension, so that another thread's messages do not come between them.
        self._outgoing.extend([Message(channel, text) for text in texts])
        self._wake()

    def listen(self, listener: Listener) -> None:
        """Start listening, until `leave`; thread-safe."""
        with self._lock:
            self._listeners.append(listener)
        self._wake()

    def leave(self, listener: Listener) -> None:
        """Stop listening; thread-safe."""
        with self._lock:
            self._listeners.remove(listener)
        self._wake()

    def tasks(self) -> set["asyncio.Task[Any]"]:
        """Return the tasks that this object runs in the loop."""
        return {one for one in (self._task, self._probing) if one is not None}

    async def close(self) -> None:
        """Send the queued messages and close the connection; call it in the loop.

        Listeners are kept: the next call reconnects.
        """
        task = self._task
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return  # a later caller has started another loop with its own task
        self._task = None
        self._closing = True
        self._news.set()
        await asyncio.wait({task}, timeout=1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._closing = False

    def _wake(self) -> None:
        loop = self._loop()
        if self._waking is not loop:  # once per iteration: a stuck loop accumulates no callbacks
            self._waking = loop
            with suppress(RuntimeError):  # it is being closed; the next call starts another
                loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._waking = None  # before setting the event, so that later messages wake it again
        if self._task is None or self._task.done():
            self._news = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._news.set()

    async def _run(self) -> None:
        first, most = _DELAYS
        delay = first
        while not self._closing:
            try:
                async with self._connect() as connection:
                    delay = first
                    self._probing = asyncio.create_task(self._probe())
                    try:
                        await self._serve(connection)
                    finally:
                        self._probing.cancel()
                        await asyncio.gather(self._probing, return_exceptions=True)
            except Exception as error:  # noqa: BLE001 - the driver's, which need not be installed
                _log.debug("The connection for notices is gone.", error=str(error))
                self._arrival.unconnected(error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, most)

    async def _probe(self) -> None:
        while not await self._arrives():  # noqa: ASYNC110  # nothing signals it
            await asyncio.sleep(_PROBED_AGAIN)

    async def _arrives(self) -> bool:
        """Return whether messages from another connection arrive; some poolers prevent it."""
        arrived = asyncio.Event()
        channel = f"durable_adk_probe_{secrets.token_hex(8)}"
        probe = Listener(channel=channel, on_message=lambda _sender, _text: arrived.set())
        self.listen(probe)
        try:
            await asyncio.wrap_future(probe.ready)
            async with self._connect() as other:  # a connection always receives its own messages
                await other.execute(_SEND, [channel], ["probe"], timeout=_TIMEOUT)
            with suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), _ARRIVAL)
        except Exception as error:  # noqa: BLE001 - the driver's; it says nothing about arrivals
            _log.debug("It is unknown whether notices arrive.", error=str(error))
        else:
            self._arrival.found(arrives=arrived.is_set())
        finally:
            self.leave(probe)
        return arrived.is_set()

    async def _serve(self, connection: Any) -> None:
        listening: set[str] = set()
        connection.add_termination_listener(self._ended)
        while not connection.is_closed():
            self._news.clear()
            listening = await self._follow(connection, listening)
            if not await self._flush(connection):
                if self._closing:
                    return
                await self._rest(connection)
        raise ConnectionResetError("the server has ended it")

    def _ended(self, _connection: object) -> None:
        self._news.set()

    async def _rest(self, connection: Any) -> None:
        """Wait for work, and check the connection after `_PING` seconds."""
        try:
            async with asyncio.timeout(_PING):  # creates no task, unlike `wait_for`
                await self._news.wait()
        except TimeoutError:
            await connection.execute("SELECT 1", timeout=_TIMEOUT)

    async def _follow(self, connection: Any, listening: set[str]) -> set[str]:
        """Listen to exactly the channels that have listeners."""
        with self._lock:
            listeners = list(self._listeners)
        wanted = {one.channel for one in listeners}
        async with asyncio.timeout(_TIMEOUT):
            for channel in listening - wanted:
                await connection.remove_listener(channel, self._on_message)
            for channel in wanted - listening:
                await connection.add_listener(channel, self._on_message)
        for one in listeners:
            if one.channel not in listening or not one.ready.done():
                one.resumed()
                if not one.ready.done():
                    one.ready.set_result(None)
        return wanted

    def _on_message(self, _connection: object, sender: int, channel: str, text: str) -> None:
        with self._lock:
            listeners = [one for one in self._listeners if one.channel == channel]
        for one in listeners:
            one.on_message(sender, text)

    async def _flush(self, connection: Any) -> bool:
        """Send one batch of queued messages; return whether there were any."""
        size = min(len(self._outgoing), _BATCH)
        if not size:
            return False
        batch = [self._outgoing.popleft() for _ in range(size)]
        channels, texts = [one.channel for one in batch], [one.text for one in batch]
        await connection.execute(_SEND, channels, texts, timeout=_TIMEOUT)
        return True
