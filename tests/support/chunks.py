"""Partial events for tests."""

from typing import Any

from google.genai import types

from durable_adk.events import Event
from durable_adk.partials import PartialEvent
from durable_adk.sessions import SessionKey

KEY = SessionKey("app", "user", "session")
INVOCATION = "e-1"


def event(text: str, *, event_id: str = "e-1.1", **fields: Any) -> Event:
    """A model's text."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(id=event_id, invocation_id=INVOCATION, author="agent", content=content, **fields)


def chunk(
    text: str, index: int = 0, *, event_id: str = "e-1.1", attempt: int = 1, revision: int = 1
) -> PartialEvent:
    """A piece of it."""
    return PartialEvent(
        key=KEY,
        invocation_id=INVOCATION,
        event=event(text, event_id=event_id, partial=True),
        attempt=attempt,
        index=index,
        revision=revision,
    )
