"""Outcome of an attempt at a model or tool call that produced no result, with its cost."""

from enum import StrEnum

from google.genai import types

from durable_adk.json_values import JsonModel


class AttemptEnd(StrEnum):
    """How an attempt without a result ended."""

    FAILED = "failed"
    """The model or tool, or a callback or plugin around the model, raised an error."""
    CANCELLED = "cancelled"
    """The attempt was cancelled before it finished, by a user or because its worker shut down."""
    LOST = "lost"
    """Its worker died or timed out; the model may charge for it, and the tool may have acted."""


class CallAttempt(JsonModel):
    """An attempt at a model or tool call that produced no result.

    Successful attempts are not recorded: their events show them, with a model's tokens. Nor is the
    last attempt of a tool that failed for good: its response or the invocation has the error.
    """

    event_id: str
    """Id of the result's event, whichever attempt eventually produces it."""
    attempt: int
    """Attempt number for that result: 1, 2, ..."""
    ended: AttemptEnd
    model: str = ""
    """Model name; empty if unknown, and for a tool."""
    tool: str = ""
    """Tool name; empty for a model."""
    call_id: str = ""
    """Id of the tool's call; empty for a model. Parallel calls have one event."""
    started: float | None = None
    """Start time of model or tool in seconds since the epoch; None if unknown or not reached."""
    seconds: float | None = None
    """Duration of the attempt in seconds; None if unknown."""
    worker: str | None = None
    """Identity of its worker, as in Temporal; None if unknown, for example if the attempt was lost
    before its first heartbeat."""
    error_type: str | None = None
    error_message: str | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    """Token counts as far as reported: of the last chunk for an interrupted stream, of the whole
    for an unusable response. None for a tool."""

    @property
    def tokens(self) -> int | None:
        """Total number of tokens, or None if unknown."""
        return self.usage_metadata.total_token_count if self.usage_metadata else None
