"""Tracks which viewers need the chunks that were published before they joined."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from threading import Lock

from durable_adk.partials.partial import PartialEvent

_REMEMBERED = 4096
"""Maximum number of viewers and of attempts; a forgotten viewer gets all chunks again, and drops
duplicates."""


class Replays:
    """Records which viewers got the first chunks of an attempt; usable from any thread.

    A viewer may be a channel with many viewers, which asks again for each new one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: OrderedDict[Hashable, int] = OrderedDict()
        self._served: OrderedDict[Hashable, int] = OrderedDict()

    def request(self, viewer: Hashable) -> None:
        """Record that a viewer needs all chunks so far of each response in progress."""
        with self._lock:
            self._requests[viewer] = self._requests.pop(viewer, 0) + 1
            _limit(self._requests)

    def chunks(
        self,
        viewer: Hashable,
        partial: PartialEvent,
        earlier: Iterable[PartialEvent],
        *,
        again: bool,
    ) -> Sequence[PartialEvent]:
        """Return the chunks to publish to a viewer: this one, after earlier ones that it lacks.

        Args:
            viewer: The viewer.
            partial: The chunk.
            earlier: The chunks of the attempt before it.
            again: Whether all were published before.
        """
        stream = (viewer, partial.event.id, partial.attempt)
        with self._lock:
            requested = self._requests.get(viewer, 0)
            lacks = self._served.pop(stream, None) != requested
            self._served[stream] = requested
            _limit(self._served)
        if lacks:
            return [*earlier, partial]
        return [] if again else [partial]


def _limit(entries: OrderedDict[Hashable, int]) -> None:
    if len(entries) > _REMEMBERED:
        entries.popitem(last=False)
