"""A summarizer that tests can hold up, and what they look for in a session."""

import math
from collections.abc import Callable, Sequence
from threading import Event as Flag

from google.genai import types

from durable_adk.apps.base_events_summarizer import BaseEventsSummarizer
from durable_adk.events import Event
from durable_adk.events.event_compaction import compaction_event
from durable_adk.runners import Runner
from tests.support.scripts import stored
from tests.support.waiting import until


class Teller(BaseEventsSummarizer):
    """Says in one word each which texts it has received; waits for a flag first."""

    def __init__(self, failing: Callable[[int], bool] = lambda asked: False) -> None:
        self.asked: list[list[str]] = []
        self.failing = failing
        self.go = Flag()  # the worker's event loop is not the test's
        self.go.set()

    async def maybe_summarize_events(self, *, events: Sequence[Event]) -> Event | None:
        """See the base class."""
        self.asked.append([event.text for event in events])
        await until(self.go.is_set, math.inf)
        if self.failing(len(self.asked)):
            raise ValueError("no words for it")
        words = "-".join(event.text for event in events if event.text)
        summary = types.Content(role="model", parts=[types.Part(text=f"sum:{words}")])
        return compaction_event(events, summary)


async def summed(runner: Runner, count: int) -> list[Event]:
    """The session's events, once so many of them are summaries."""

    async def found() -> list[Event]:
        events = await stored(runner)
        compactions = sum(event.actions.compaction is not None for event in events)
        return events if compactions >= count else []

    return await until(found)
