"""An event as the session log keeps it."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError

from durable_adk.errors import EventConflictError, InvalidRequestError, StateValueError
from durable_adk.events.event import Event
from durable_adk.json_values import MAX_KEY, canonical, check_json, check_state_key
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.state import without_temp


@dataclass(frozen=True, slots=True)
class Entry:
    """The stored form of an event: text that no later change of the event can reach."""

    event_id: str
    invocation_id: str
    timestamp: float
    digest: str
    """Of the content, by which a repeat is told from a conflict (SSN-12)."""
    body: str
    """`Event.to_json()`, without `temp:` keys."""
    delta: dict[str, str]
    """The state delta without `temp:` keys, each value as JSON."""

    @classmethod
    def of(cls, event: Event) -> "Entry":
        """The entry for an event.

        Raises:
            InvalidRequestError: The event is partial or has no id; such are never stored.
            StateValueError: Something in it is not JSON.
        """
        if event.partial or not event.id:
            raise InvalidRequestError("Only a whole event that has an id can be stored.")
        if len(event.id.encode(errors="replace")) > MAX_KEY:
            raise InvalidRequestError(f"An event's id may have {MAX_KEY} bytes; shorten it.")
        check_state(event.actions.state_delta)
        delta = without_temp(event.actions.state_delta)
        body = _body(event, delta)
        return cls(
            event_id=event.id,
            invocation_id=event.invocation_id,
            timestamp=event.timestamp,
            digest=_digest(body),
            body=body,
            delta=encode(delta),
        )

    def event(self) -> Event:
        """A fresh copy of the stored event."""
        return decode_event(self.body)

    def require_same(self, digest: str) -> None:
        """Tell a repeat of this event from another one that uses its id.

        Raises:
            EventConflictError: The stored content differs.
        """
        if digest != self.digest:
            raise EventConflictError(
                f"The id {self.event_id!r} is taken by an event with other content."
            )


def _body(event: Event, delta: dict[str, Any]) -> str:
    actions = event.actions.model_copy(update={"state_delta": delta})
    try:
        return event.model_copy(update={"actions": actions}).to_json()
    except PydanticSerializationError as error:
        raise StateValueError(f"The event {event.id!r} is not JSON: {error}") from error


def _digest(body: str) -> str:
    # Without the timestamp: a step that is run again by another process reads another clock.
    content = json.loads(body)
    content.pop("timestamp", None)
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def decode_event(body: str) -> Event:
    """The event of a stored body, written by this or a newer version."""
    return Event.from_json(body)


def check_state(values: dict[str, Any]) -> None:
    """Refuse keys and values that would not come back as they went in.

    Raises:
        StateValueError: Naming the key.
    """
    for key, value in values.items():
        check_state_key(key)
        check_json(value, f"state[{key!r}]")


def encode(values: dict[str, Any]) -> dict[str, str]:
    """State values as the JSON text that is stored."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}


def decode(texts: dict[str, str]) -> dict[str, Any]:
    """The inverse of `encode`: fresh values that alias nothing."""
    return {key: json.loads(text) for key, text in texts.items()}


def session_copy(key: SessionKey, head: Head, *states: dict[str, str] | None) -> Session:
    """Copy a session without its events.

    Args:
        key: Its name.
        head: Its row.
        states: The state of each of its scopes, as JSON texts; None if a scope has none.
    """
    texts = {name: text for state in states if state for name, text in state.items()}
    return Session(
        id=key.session_id,
        app_name=key.app_name,
        user_id=key.user_id,
        state=decode(texts),
        last_update_time=head.update_time,
        revision=head.revision,
    )


def entry_of(event: Event, invocation_id: str) -> Entry:
    """The entry for an event of an invocation.

    Raises:
        InvalidRequestError: It is of another one.
    """
    if event.invocation_id != invocation_id:
        raise InvalidRequestError(
            f"The event {event.id!r} belongs to the invocation {event.invocation_id!r}, "
            f"not to {invocation_id!r}."
        )
    return Entry.of(event)
