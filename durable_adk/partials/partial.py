"""One chunk of an event that a model is still writing."""

from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import SessionKey

MARK = "partial"
"""Key of `custom_metadata` that holds the attempt and index of a displayed chunk."""


class PartialEvent(JsonModel):
    """A chunk together with its position in the stream (DUR-8)."""

    key: SessionKey
    invocation_id: str
    event: Event
    """The partial event; it has the id of the complete event that will follow (FLW-74)."""
    attempt: int = Field(ge=1)
    """Attempt number of the model step; a retry restarts the text (TRAP-6)."""
    index: int = Field(ge=0)
    """0, 1, 2, ... within the attempt; a gap means that chunks were lost. For merged chunks, the
    index of the last one."""
    revision: int = Field(ge=0)
    """Session revision when the step began; events up to it precede this chunk."""
    lengths: list[int] | None = None
    """Characters of each merged chunk; None: this is a single chunk."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.lengths is not None:
            text = text_of(self.event)
            if text is None or not 0 < len(self.lengths) <= self.index + 1:
                raise ValueError("Only chunks with one text can be merged.")
            if min(self.lengths) < 0 or sum(self.lengths) != len(text):
                raise ValueError("The lengths are not those of the text.")
        return self

    @property
    def first(self) -> int:
        """Index of its first chunk."""
        return self.index if self.lengths is None else self.index - len(self.lengths) + 1

    def rest(self, index: int) -> Self | None:
        """Return the part from a chunk on; None: there is none."""
        if index > self.index:
            return None
        if self.lengths is None or index <= self.first:
            return self
        skipped = index - self.first
        text = (text_of(self.event) or "")[sum(self.lengths[:skipped]) :]
        update = {"event": with_text(self.event, text), "lengths": self.lengths[skipped:]}
        return self.model_copy(update=update)

    def as_event(self) -> Event:
        """Return a copy of the event for viewers, marked as partial, with attempt and index.

        The mark of merged chunks also has their number.
        """
        mark = {"attempt": self.attempt, "index": self.index}
        if self.first < self.index:
            mark["chunks"] = self.index - self.first + 1
        metadata = {**(self.event.custom_metadata or {}), MARK: mark}
        return self.event.model_copy(update={"partial": True, "custom_metadata": metadata})


def text_of(event: Event) -> str | None:
    """Return the text or thought that is a chunk's only part; None: it has more or other parts."""
    if len(event.parts) != 1:
        return None
    (part,) = event.parts
    other = any(value is not None for name, value in part if name not in {"text", "thought"})
    return None if other else part.text


def with_text(event: Event, text: str) -> Event:
    """Return a copy of a chunk that consists of one text, with that text replaced."""
    if event.content is None:
        return event
    parts = [part.model_copy(update={"text": text}) for part in event.parts]
    content = event.content.model_copy(update={"parts": parts})
    return event.model_copy(update={"content": content})


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
