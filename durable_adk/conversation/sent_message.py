"""Recognizes a user's message although plugins changed it before it was stored.

A client that repeats a request must be distinguished from one that reuses an invocation id for
another message or state (DUR-13). The stored message alone does not suffice, so a digest of the
original is stored with it.
"""

import hashlib
from typing import Any

from google.genai import types

from durable_adk.events.event import RUNTIME_METADATA, Event
from durable_adk.json_values import canonical
from durable_adk.sessions.state import without_temp

AS_SENT = "adk_message_as_sent"
"""Key of a user event's `custom_metadata`: the digest of the message that the client sent."""
STATE_AS_SENT = "adk_state_as_sent"
"""Digest of the state delta that the client sent, without temporary keys."""

MESSAGE_ID = "ag_ui_message_id"
"""Key of `custom_metadata`: the id that an AG-UI front end gave to the user's message. It is not
compared: the same message by another route has none."""


def with_digests(changed: Event, *, sent: Event) -> dict[str, Any] | None:
    """Return a user event's metadata with the digests of the client's original.

    Args:
        changed: The event as it is stored.
        sent: The event before plugins changed it.
    """
    digests = dict[str, str]()
    if changed.content != sent.content:
        digests[AS_SENT] = _message_digest(sent.content)
    if changed.actions.state_delta != sent.actions.state_delta:
        digests[STATE_AS_SENT] = _state_digest(sent.actions.state_delta)
    return {**(sent.custom_metadata or {}), **digests} if digests else sent.custom_metadata


def differing_field(
    event: Event,
    *,
    message: types.Content,
    state_delta: dict[str, Any] | None,
    custom_metadata: dict[str, Any] | None,
) -> str | None:
    """Return the field in which a request differs from the one that started an invocation.

    Args:
        event: The invocation's user event.
        message: The request's message.
        state_delta: Its state changes; None: not compared.
        custom_metadata: Its run's metadata.
    """
    if not is_sent_as(event, message):
        return "new_message"
    stored = event.custom_metadata or {}
    if state_delta is not None:
        sent = stored.get(STATE_AS_SENT) or _state_digest(event.actions.state_delta)
        if sent != _state_digest(state_delta):
            return "state_delta"
    own = {key: value for key, value in stored.items() if not key.startswith(RUNTIME_METADATA)}
    given = dict(custom_metadata or {})
    for metadata in (own, given):
        metadata.pop(MESSAGE_ID, None)
    return None if canonical(own) == canonical(given) else "custom_metadata"


def is_sent_as(event: Event, message: types.Content) -> bool:
    """Return whether the client sent this message, whether or not plugins changed it."""
    digest = (event.custom_metadata or {}).get(AS_SENT)
    said = event.content or types.Content(role="user")  # agents only continue: there is no content
    return said == message or digest == _message_digest(message)


def is_same_message(event: Event, message: types.Content, metadata: dict[str, Any] | None) -> bool:
    """Return whether a stored event is this message, which plugins may have changed again.

    Args:
        event: The stored event.
        message: The message after the plugins of this attempt.
        metadata: The metadata from `with_digests`, if plugins changed the message.
    """
    digest = (metadata or {}).get(AS_SENT)
    same = digest is not None and (event.custom_metadata or {}).get(AS_SENT) == digest
    return same or is_sent_as(event, message)


def _message_digest(message: types.Content | None) -> str:
    return _digest(message.model_dump(mode="json", exclude_none=True) if message else None)


def _state_digest(delta: dict[str, Any]) -> str:
    return _digest(without_temp(delta))


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
