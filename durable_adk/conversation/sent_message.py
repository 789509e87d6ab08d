"""A user's message as it was sent, when plugins have changed it before it was stored.

A client that sends the same request again is told from one that reuses an invocation's id for
another message (DUR-13); the stored message alone does not tell that any more.
"""

import hashlib
from typing import Any

from google.genai import types

from durable_adk.events.event import Event
from durable_adk.json_values import canonical

AS_SENT = "adk_message_as_sent"


def marked(metadata: dict[str, Any] | None, *, sent: types.Content | None) -> dict[str, Any]:
    """A user event's metadata, with a digest of what was sent."""
    return {**(metadata or {}), AS_SENT: _digest(sent)}


def is_sent_as(event: Event, message: types.Content) -> bool:
    """Whether a user's event is this message, as it is or as plugins have changed it."""
    known = (event.custom_metadata or {}).get(AS_SENT)
    return event.content == message or known == _digest(message)


def is_same(event: Event, message: types.Content, metadata: dict[str, Any] | None) -> bool:
    """Whether a user's event is this message, which plugins may have changed once more.

    Args:
        event: As stored.
        message: As plugins have left it now.
        metadata: As `marked`, if they have.
    """
    mark = (metadata or {}).get(AS_SENT)
    same = mark is not None and (event.custom_metadata or {}).get(AS_SENT) == mark
    return same or is_sent_as(event, message)


def _digest(message: types.Content | None) -> str:
    content = message.model_dump(mode="json", exclude_none=True) if message else None
    return hashlib.sha256(canonical(content).encode()).hexdigest()
