"""Recognizes a user's message although plugins changed it before it was stored.

A client that repeats a request must be told from one that reuses an invocation id for another
message (DUR-13). The stored message alone cannot tell, so a digest of the original is kept with it.
"""

import hashlib
from typing import Any

from google.genai import types

from durable_adk.events.event import Event
from durable_adk.json_values import canonical

AS_SENT = "adk_message_as_sent"
"""Key of a user event's `custom_metadata`: the digest of the message that the client sent."""


def with_digest(metadata: dict[str, Any] | None, *, sent: types.Content | None) -> dict[str, Any]:
    """Return a user event's metadata with the digest of the message that the client sent."""
    return {**(metadata or {}), AS_SENT: _digest(sent)}


def is_sent_as(event: Event, message: types.Content) -> bool:
    """Return whether the client sent this message, whether or not plugins changed it."""
    digest = (event.custom_metadata or {}).get(AS_SENT)
    said = event.content or types.Content(role="user")  # agents that only continue: no content
    return said == message or digest == _digest(message)


def is_same_message(event: Event, message: types.Content, metadata: dict[str, Any] | None) -> bool:
    """Return whether a stored event holds this message, which plugins may have changed again.

    Args:
        event: The stored event.
        message: The message after the plugins of this attempt.
        metadata: The metadata from `with_digest`, if plugins changed the message.
    """
    digest = (metadata or {}).get(AS_SENT)
    same = digest is not None and (event.custom_metadata or {}).get(AS_SENT) == digest
    return same or is_sent_as(event, message)


def _digest(message: types.Content | None) -> str:
    content = message.model_dump(mode="json", exclude_none=True) if message else None
    return hashlib.sha256(canonical(content).encode()).hexdigest()
