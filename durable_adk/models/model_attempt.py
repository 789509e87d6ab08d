"""One attempt of asking a model that gave no answer, and what it cost."""

from enum import StrEnum

from google.genai import types

from durable_adk.json_model import JsonModel


class AttemptEnd(StrEnum):
    """How an attempt ended that gave no answer."""

    FAILED = "failed"
    """The model, or what is run round it, raised an error."""
    CANCELLED = "cancelled"
    """It was ended before it was done."""
    LOST = "lost"
    """Its worker died, or was given up: the model may have been asked, and charge for it."""


class ModelAttempt(JsonModel):
    """What is known of it.

    An attempt that did answer is not among these: its tokens are on the event of its answer.
    """

    event_id: str
    """Of the answer that was wanted, whichever attempt gave it in the end."""
    attempt: int
    """1, 2, ... of that answer."""
    ended: AttemptEnd
    model: str = ""
    """Empty: unknown, as next the times."""
    started: float | None = None
    """When the model was asked: seconds since the epoch."""
    seconds: float | None = None
    """How long it took to end."""
    error_type: str | None = None
    error_message: str | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    """The tokens, as far as the model had told of them: of a stream that was cut, its last chunk's;
    of an answer that could not be used, all."""

    @property
    def tokens(self) -> int | None:
        """How many there were in all; None: unknown."""
        return self.usage_metadata.total_token_count if self.usage_metadata else None
