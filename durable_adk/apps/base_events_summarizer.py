"""The port to what summarises events."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from durable_adk.events.event import Event


class BaseEventsSummarizer(ABC):
    """Makes one event of many (semantics CMP-1); it runs in an activity and may do any I/O."""

    @abstractmethod
    async def maybe_summarize_events(self, *, events: Sequence[Event]) -> Event | None:
        """The event whose `actions.compaction` holds the summary of `events`, or None for none.

        An exception is logged, and the summary is due again after the next invocation (CMP-2).

        Args:
            events: Copies of those that the summary will stand for, in order, at least one; the
                first may be an earlier summary, with that as its content.
        """
