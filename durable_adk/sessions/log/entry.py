"""The stored form of an event in the session log."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    StateConflictError,
)
from durable_adk.events.event import Event
from durable_adk.json_values import MAX_KEY, canonical, check_json, check_state_key
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.state import without_temp
from durable_adk.sessions.state_merge import Base, merged


@dataclass(frozen=True, slots=True)
class Entry:
    """The stored form of an event: immutable text, independent of later changes to the event."""

    event_id: str
    invocation_id: str
    timestamp: float
    digest: str
    """SHA-256 of the content; distinguishes a repeat from a conflict (SSN-12)."""
    body: str
    """`Event.to_json()`, without `temp:` keys."""
    delta: dict[str, str]
    """The state delta without `temp:` keys, each value as JSON."""
    bases: dict[str, Base] = field(default_factory=dict[str, Base])
    """The bases of values that are to be merged; see `sessions.state_merge`."""

    @classmethod
    def of(cls, event: Event, *, keeps_bases: bool = False) -> "Entry":
        """Build the entry for an event.

        Args:
            event: The event.
            keeps_bases: Whether `EventActions.state_read` is stored too.

        Raises:
            InvalidRequestError: The event is partial, has no id, or its id is too long.
            StateValueError: A value in the event is not JSON.
        """
        if event.partial or not event.id:
            raise InvalidRequestError("Only a whole event that has an id can be stored.")
        if len(event.id.encode(errors="replace")) > MAX_KEY:
            raise InvalidRequestError(f"An event's id may have {MAX_KEY} bytes; shorten it.")
        check_state(event.actions.state_delta)
        delta = without_temp(event.actions.state_delta)
        read = {key: base for key, base in event.actions.state_read.items() if key in delta}
        body, _ = _stored(event, delta, read if keeps_bases else {})
        return cls(
            event_id=event.id,
            invocation_id=event.invocation_id,
            timestamp=event.timestamp,
            digest=_digest(body),
            body=body,
            delta=encode(delta),
            bases=read,
        )

    def merged(self, stored: dict[str, str]) -> "Entry":
        """Return the entry with its values merged into the stored ones (JSON texts).

        The digest stays that of the original event, so that a repeat is recognised.

        Raises:
            StateConflictError: A value cannot be merged.
        """
        mine = {key: self.delta[key] for key in self.bases}
        event = self.event()
        try:
            values = merged(decode(stored), decode(mine), self.bases)
        except StateConflictError as error:
            raise StateConflictError(f"{_writer(event)}: {error.message}") from error
        changed = {key: text for key, text in encode(values).items() if text != mine[key]}
        if not changed:
            return self
        check_state(values)
        event.actions.state_delta |= decode(changed)
        return replace(self, body=event.to_json(), delta=self.delta | changed)

    def event(self) -> Event:
        """Return a fresh copy of the stored event."""
        return decode_event(self.body)

    def require_same(self, digest: str) -> None:
        """Check that an event with this id is a repeat and not a different event.

        Raises:
            EventConflictError: The stored content differs.
        """
        if digest != self.digest:
            raise EventConflictError(
                f"The id {self.event_id!r} is taken by an event with other content."
            )


def _writer(event: Event) -> str:
    tools = [repr(response.name) for response in event.get_function_responses()]
    return f"Tool {', '.join(tools)}" if tools else f"Agent {event.author!r}"


def _stored(event: Event, delta: dict[str, Any], read: dict[str, Base]) -> tuple[str, Event]:
    """Return the body of an event, and the event that it is read as."""
    actions = event.actions.model_copy(update={"state_delta": delta, "state_read": read})
    return event.model_copy(update={"actions": actions}).storable(f"The event {event.id!r}")


def _digest(body: str) -> str:
    # Exclude the timestamp: a retried step in another process reads a different clock.
    content = json.loads(body)
    content.pop("timestamp", None)
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def stored_copy(event: Event, *, keeps_bases: bool) -> Event:
    """Return a valid event as a store would return it; see `Entry.of`."""
    delta = without_temp(event.actions.state_delta)
    read = {key: base for key, base in event.actions.state_read.items() if key in delta}
    return _stored(event, delta, read if keeps_bases else {})[1]


def decode_event(body: str) -> Event:
    """Parse a stored body; it may have been written by a newer version."""
    return Event.from_json(body)


def check_state(values: dict[str, Any]) -> None:
    """Reject keys and values that storage would not return unchanged.

    Raises:
        StateValueError: A key or value is invalid; the message names the key.
    """
    for key, value in values.items():
        check_state_key(key)
        check_json(value, f"state[{key!r}]")


def encode(values: dict[str, Any]) -> dict[str, str]:
    """Convert state values to the JSON text that is stored."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}


def decode(texts: dict[str, str]) -> dict[str, Any]:
    """Invert `encode`; the values are fresh and share no references."""
    return {key: json.loads(text) for key, text in texts.items()}


def session_copy(key: SessionKey, head: Head, *states: dict[str, str] | None) -> Session:
    """Build a copy of a session without its events.

    Args:
        key: The session.
        head: The session's row.
        states: The state of each scope, as JSON texts; None for an empty scope.
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


def entry_of(event: Event, invocation_id: str, *, key: SessionKey) -> Entry:
    """Build the entry for an event of an invocation in a session.

    In the session of an agent used as a tool, the entry keeps the bases: its state changes are
    merged once more, into its caller's session.

    Raises:
        InvalidRequestError: The event belongs to another invocation.
    """
    if event.invocation_id != invocation_id:
        raise InvalidRequestError(
            f"The event {event.id!r} belongs to the invocation {event.invocation_id!r}, "
            f"not to {invocation_id!r}."
        )
    return Entry.of(event, keeps_bases=key.is_child)
