"""One chunk of an event that a model is still writing."""

from typing import Any

from pydantic import Field, ValidationError

from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import SessionKey

MARK = "partial"
"""Key of `custom_metadata` that holds the attempt and index of a displayed chunk."""


class PartialEvent(JsonModel):
    """A chunk together with its position in the stream (semantics DUR-8)."""

    key: SessionKey
    invocation_id: str
    event: Event
    """The partial event; it has the id of the complete event that will follow (FLW-74)."""
    attempt: int = Field(ge=1)
    """Attempt number of the model step; a retry restarts the text (TRAP-6)."""
    index: int = Field(ge=0)
    """0, 1, 2, ... within the attempt; a gap means that chunks were lost."""
    revision: int = Field(ge=0)
    """Session revision when the step began; events up to it precede this chunk."""

    def as_event(self) -> Event:
        """Return a copy of the event for viewers, marked as partial, with attempt and index."""
        mark = {MARK: {"attempt": self.attempt, "index": self.index}}
        metadata = {**(self.event.custom_metadata or {}), **mark}
        return self.event.model_copy(update={"partial": True, "custom_metadata": metadata})


def attempt_of(event: Event) -> int:
    """Return the attempt recorded by `PartialEvent.as_event`, or 0 if there is none."""
    mark: Any = (event.custom_metadata or {}).get(MARK)
    try:
        return int(mark["attempt"])
    except (TypeError, KeyError, ValueError):  # no mark, or custom metadata of the agent
        return 0


def encode(partial: PartialEvent) -> bytes | None:
    """Encode a chunk as JSON; None if impossible, e.g. because it splits a surrogate pair."""
    try:
        return partial.to_json().encode()
    except ValueError:
        return None


def decode(data: bytes) -> PartialEvent | None:
    """Decode the output of `encode` of any version; None if the data is not a chunk."""
    try:
        return PartialEvent.model_validate_json(data, extra="ignore")
    except ValidationError:
        return None
