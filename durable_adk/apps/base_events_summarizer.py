"""The interface of event summarizers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from durable_adk.events.event import Event


class BaseEventsSummarizer(ABC):
    """Summarises many events in one (CMP-1); runs in an activity and may do I/O."""

    @abstractmethod
    async def maybe_summarize_events(self, *, events: Sequence[Event]) -> Event | None:
        """Return an event whose `actions.compaction` summarises `events`, or None to skip.

        An exception is logged, and the summary is retried after the next invocation (CMP-2).

        Args:
            events: Copies of the events to summarise, in order, at least one. If the first is an
                earlier summary, its content is the summary's.
        """
