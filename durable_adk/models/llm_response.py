"""`LlmResponse`: a response of a model."""

from typing import Any

from google.genai import types

from durable_adk.json_values import JsonModel

NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"
"""Error code of a complete response without content (FLW-5)."""
_NON_CONTENT_FIELDS = {"text", "thought", "thought_signature", "part_metadata"}


def empty_response_message(*, has_parts: bool) -> str:
    """Return ADK's error message for a complete response without content."""
    what, why = ("actionable ", "thought-only or whitespace-only") if has_parts else ("", "empty")
    return f"The model returned no {what}content (finish_reason=STOP with {why} parts)."


def has_content(part: types.Part) -> bool:
    """Return whether the part is neither blank text nor a thought."""
    if part.text and part.text.strip() and not part.thought:
        return True
    fields = {name for name in part.model_fields_set if getattr(part, name) is not None}
    return not fields <= _NON_CONTENT_FIELDS


class LlmResponse(JsonModel):
    """A response of a model, complete or (`partial`) a chunk of it (EVT-1)."""

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
    logprobs_result: types.LogprobsResult | None = None
    custom_metadata: dict[str, Any] | None = None
    interaction_id: str | None = None
    environment_id: str | None = None

    @staticmethod
    def create(generate_content_response: types.GenerateContentResponse) -> "LlmResponse":
        """Convert a complete response of google-genai as ADK does, for custom models.

        A blocked prompt is an error named after the block reason. A candidate without parts that
        ended for a reason other than ``STOP`` is an error named after its finish reason. Without
        candidate and reason, the content is empty.
        """
        response = generate_content_response
        shared: dict[str, Any] = {
            "usage_metadata": response.usage_metadata,
            "model_version": response.model_version,
        }
        candidate = response.candidates[0] if response.candidates else None
        feedback = response.prompt_feedback
        if candidate is None:
            if feedback is None:
                return LlmResponse(content=types.Content(role="model", parts=[]), **shared)
            code, message = feedback.block_reason, feedback.block_reason_message
            return LlmResponse(error_code=code, error_message=message, **shared)
        shared |= {
            "finish_reason": candidate.finish_reason,
            "citation_metadata": candidate.citation_metadata,
            "avg_logprobs": candidate.avg_logprobs,
            "logprobs_result": candidate.logprobs_result,
        }
        parts = candidate.content and candidate.content.parts
        if parts or candidate.finish_reason is types.FinishReason.STOP:
            grounding = candidate.grounding_metadata
            return LlmResponse(content=candidate.content, grounding_metadata=grounding, **shared)
        code, message = candidate.finish_reason, candidate.finish_message
        return LlmResponse(error_code=code, error_message=message, **shared)

    @property
    def parts(self) -> list[types.Part]:
        """The content's parts; empty without content."""
        return (self.content.parts or []) if self.content else []

    def get_function_calls(self) -> list[types.FunctionCall]:
        """Return the function calls in order (EVT-6)."""
        return [part.function_call for part in self.parts if part.function_call]

    def get_function_responses(self) -> list[types.FunctionResponse]:
        """Return the function responses in order (EVT-7)."""
        return [part.function_response for part in self.parts if part.function_response]

    def or_silence(self) -> "LlmResponse":
        """Return the response, converted to an error if it is complete and empty."""
        stopped = self.finish_reason is types.FinishReason.STOP and not self.error_code
        if self.partial or not stopped or any(map(has_content, self.parts)):
            return self
        message = self.error_message or empty_response_message(has_parts=bool(self.parts))
        return self.model_copy(update={"error_code": NO_CONTENT, "error_message": message})
