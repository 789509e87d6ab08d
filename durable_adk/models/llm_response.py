"""`LlmResponse`: a response of a model."""

from typing import Any

from google.genai import types

from durable_adk.json_values import JsonModel

NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"
"""Error code of a complete response without content (semantics FLW-5)."""
_NOT_SAID = {"text", "thought", "thought_signature", "part_metadata"}


def says_something(part: types.Part) -> bool:
    """Return whether the part is more than a blank text or a thought."""
    if part.text and part.text.strip() and not part.thought:
        return True
    fields = {name for name in part.model_fields_set if getattr(part, name) is not None}
    return not fields <= _NOT_SAID


class LlmResponse(JsonModel):
    """A response of a model, complete or (`partial`) a chunk of it (semantics 2.1, EVT-1)."""

    content: types.Content | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    finish_reason: types.FinishReason | None = None
    model_version: str | None = None
    grounding_metadata: types.GroundingMetadata | None = None
    citation_metadata: types.CitationMetadata | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    avg_logprobs: float | None = None
    custom_metadata: dict[str, Any] | None = None

    def or_silence(self) -> "LlmResponse":
        """Return the response; as an error if it is complete and empty (semantics 17.1)."""
        parts = (self.content.parts or []) if self.content else []
        stopped = self.finish_reason is types.FinishReason.STOP and not self.error_code
        if self.partial or not stopped or any(map(says_something, parts)):
            return self
        message = "The model stopped without an answer."
        return self.model_copy(update={"error_code": NO_CONTENT, "error_message": message})
