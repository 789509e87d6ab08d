"""Which viewers need the chunks that were published before they came."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from threading import Lock

from durable_adk.partials.partial import PartialEvent

_REMEMBERED = 4096
"""Viewers and attempts; one that was forgotten gets all again, and drops what it has."""


class Replays:
    """Remembers to whom the first chunks of an attempt were published; usable from any thread.

    A viewer may be a channel with any number of them, which asks anew for each that comes.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked: OrderedDict[Hashable, int] = OrderedDict()
        self._served: OrderedDict[Hashable, int] = OrderedDict()

    def ask(self, viewer: Hashable) -> None:
        """Note that a viewer needs all chunks so far of whatever is being written."""
        with self._lock:
            self._asked[viewer] = self._asked.pop(viewer, 0) + 1
            _limit(self._asked)

    def chunks(
        self,
        viewer: Hashable,
        partial: PartialEvent,
        earlier: Iterable[PartialEvent],
        *,
        again: bool,
    ) -> Sequence[PartialEvent]:
        """Return what to publish to a viewer: the chunk, and before it those that it lacks.

        Args:
            viewer: The viewer.
            partial: The chunk.
            earlier: The chunks of the attempt before it.
            again: Whether all were published before.
        """
        stream = (viewer, partial.event.id, partial.attempt)
        with self._lock:
            asked = self._asked.get(viewer, 0)
            lacks = self._served.pop(stream, None) != asked
            self._served[stream] = asked
            _limit(self._served)
        if lacks:
            return [*earlier, partial]
        return [] if again else [partial]


def _limit(entries: OrderedDict[Hashable, int]) -> None:
    if len(entries) > _REMEMBERED:
        entries.popitem(last=False)
