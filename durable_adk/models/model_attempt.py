"""Outcome and cost of a failed attempt at a model call."""

from enum import StrEnum

from google.genai import types

from durable_adk.json_values import JsonModel


class AttemptEnd(StrEnum):
    """How an attempt without a response ended."""

    FAILED = "failed"
    """The model, or a callback or plugin around it, raised an error."""
    CANCELLED = "cancelled"
    """The attempt was cancelled before it finished."""
    LOST = "lost"
    """Its worker died or timed out; the model may have been called, and may charge for it."""


class ModelAttempt(JsonModel):
    """A failed attempt at a model call.

    Successful attempts are not recorded here: their tokens are on the event of the response.
    """

    event_id: str
    """Id of the event for the response, whichever attempt eventually produces it."""
    attempt: int
    """Attempt number for that response: 1, 2, ..."""
    ended: AttemptEnd
    model: str = ""
    """Model name; empty if unknown."""
    started: float | None = None
    """Start time of the model call in seconds since the epoch; None if unknown."""
    seconds: float | None = None
    """Duration of the attempt in seconds; None if unknown."""
    worker: str | None = None
    """Identity of its worker, as in Temporal; None if unknown, as of an attempt that was lost
    before its first heartbeat."""
    error_type: str | None = None
    error_message: str | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    """Token counts as far as reported: for a cut stream those of the last chunk, for an unusable
    response all."""

    @property
    def tokens(self) -> int | None:
        """Total number of tokens, or None if unknown."""
        return self.usage_metadata.total_token_count if self.usage_metadata else None
