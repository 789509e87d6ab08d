"""One chunk of an event that a model is still writing."""

from typing import Any

from pydantic import Field, ValidationError

from durable_adk.events.event import Event
from durable_adk.json_model import JsonModel
from durable_adk.sessions.session import SessionKey

MARK = "partial"
"""Key of `custom_metadata` under which a shown chunk says its attempt and index."""


class PartialEvent(JsonModel):
    """A chunk with what a viewer needs to put it in its place (semantics DUR-8)."""

    key: SessionKey
    invocation_id: str
    event: Event
    """Partial; its id is that of the whole event to come (FLW-74)."""
    attempt: int = Field(ge=1)
    """Attempt of the model step: a retry begins its text anew (TRAP-6)."""
    index: int = Field(ge=0)
    """0, 1, 2, ... within the attempt; what is missing in between was lost."""
    revision: int = Field(ge=0)
    """The session's when the step began: events up to it come before this chunk."""

    def as_event(self) -> Event:
        """The chunk for a viewer: a copy that says where it belongs, and that it is not stored."""
        mark = {MARK: {"attempt": self.attempt, "index": self.index}}
        metadata = {**(self.event.custom_metadata or {}), **mark}
        return self.event.model_copy(update={"partial": True, "custom_metadata": metadata})


def attempt_of(event: Event) -> int:
    """The attempt that `PartialEvent.as_event` wrote down; 0 if there is none."""
    mark: Any = (event.custom_metadata or {}).get(MARK)
    try:
        return int(mark["attempt"])
    except (TypeError, KeyError, ValueError):  # none, or metadata of the agent's own
        return 0


def encode(partial: PartialEvent) -> bytes | None:
    """The chunk as JSON; None if it has none, e.g. because it ends amid a surrogate pair."""
    try:
        return partial.to_json().encode()
    except ValueError:
        return None


def decode(data: bytes) -> PartialEvent | None:
    """What `encode` wrote, here or in another version; None if it is something else."""
    try:
        return PartialEvent.model_validate_json(data, extra="ignore")
    except ValidationError:
        return None
