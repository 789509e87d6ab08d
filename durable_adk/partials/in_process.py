"""Partial events within one process."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from threading import Lock

from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.partial import PartialEvent, encode
from durable_adk.partials.replay import Replays
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey


class InProcessPartials(PartialChannel):
    """Channel for a runner that executes invocations in its own process, in any event loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._replays = Replays()
        self._viewers: dict[tuple[SessionKey, str], tuple[Subscription, ...]] = {}

    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        """See `PartialChannel.publish`."""
        for viewer in self._viewers.get((partial.key, partial.invocation_id), ()):
            for chunk in self._replays.chunks(viewer, partial, earlier, again=again):
                if data := encode(chunk):
                    viewer.put(data)

    @asynccontextmanager
    async def subscribe(self, key: SessionKey, invocation_id: str) -> AsyncGenerator[Subscription]:
        """See `PartialChannel.subscribe`."""
        topic, viewer = (key, invocation_id), Subscription()
        with self._lock:
            self._viewers[topic] = (*self._viewers.get(topic, ()), viewer)
        try:
            yield viewer
        finally:
            self._leave(topic, viewer)

    def _leave(self, topic: tuple[SessionKey, str], viewer: Subscription) -> None:
        with self._lock:
            others = tuple(other for other in self._viewers[topic] if other is not viewer)
            self._viewers[topic] = others
            if not others:
                del self._viewers[topic]
