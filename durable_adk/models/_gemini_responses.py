"""Converts Gemini's responses to `LlmResponse`, without I/O."""

from collections.abc import Iterable, Sequence
from typing import Any

from google.genai import types

from durable_adk.models.llm_response import (
    NO_CONTENT,
    LlmResponse,
    empty_response_message,
    has_content,
)

UNKNOWN = "UNKNOWN_ERROR"
_TEXT = {"text", "thought"}


def to_llm_response(response: types.GenerateContentResponse) -> LlmResponse:
    """Convert a complete response (EVT-21, FLW-5).

    A response that is not empty is content, whatever its finish reason. An empty response (no
    parts, blank text, thoughts only) is an error named after its finish reason, or `NO_CONTENT` for
    ``STOP``; thoughts stay in `content`. Without candidates, the error is the prompt's block reason
    or `UNKNOWN`. A safety block is returned, not raised, because a retry would not help (TRAP-40).
    """
    candidate = _candidate(response)
    if candidate is None:
        return _blocked(response)
    result = LlmResponse(
        content=candidate.content,
        finish_reason=candidate.finish_reason,
        citation_metadata=candidate.citation_metadata,
        grounding_metadata=candidate.grounding_metadata,
        avg_logprobs=candidate.avg_logprobs,
        model_version=response.model_version,
        usage_metadata=response.usage_metadata,
    )
    parts = _parts(candidate)
    if candidate.finish_reason is None or any(has_content(part) for part in parts):
        return result
    result.content = candidate.content if parts else None
    result.error_code, result.error_message = _silence(candidate.finish_reason, candidate)
    return result


def to_partial(chunk: types.GenerateContentResponse) -> LlmResponse | None:
    """Convert a stream chunk for display (never stored); None if it adds nothing (FLW-71)."""
    parts = [part for part in _parts(_candidate(chunk)) if not _is_empty(part)]
    if not parts:
        return None
    return LlmResponse(
        content=types.Content(role="model", parts=parts),
        partial=True,
        model_version=chunk.model_version,
    )


def merge(chunks: Sequence[types.GenerateContentResponse]) -> types.GenerateContentResponse:
    """Merge the chunks of a stream into a complete response (FLW-72, FLW-73).

    Parts keep their order; adjacent texts and adjacent thoughts are joined. For all other fields
    the last value wins, including token counts, which Gemini sends as running totals.
    """
    candidates = [candidate for chunk in chunks if (candidate := _candidate(chunk)) is not None]
    whole = types.GenerateContentResponse(
        model_version=_last(chunks, "model_version"),
        usage_metadata=_last(chunks, "usage_metadata"),
        prompt_feedback=_last(chunks, "prompt_feedback"),
    )
    if candidates:
        whole.candidates = [
            types.Candidate(
                content=_joined_content(candidates),
                finish_reason=_last(candidates, "finish_reason"),
                finish_message=_last(candidates, "finish_message"),
                citation_metadata=_last(candidates, "citation_metadata"),
                grounding_metadata=_last(candidates, "grounding_metadata"),
                avg_logprobs=_last(candidates, "avg_logprobs"),
            )
        ]
    return whole


def is_complete(whole: types.GenerateContentResponse) -> bool:
    """Whether the stream of `whole` was complete: the model finished, or never started."""
    candidate = _candidate(whole)
    if candidate is None:
        return whole.prompt_feedback is not None or whole.usage_metadata is not None
    return candidate.finish_reason is not None


def _candidate(response: types.GenerateContentResponse) -> types.Candidate | None:
    return response.candidates[0] if response.candidates else None


def _parts(candidate: types.Candidate | None) -> list[types.Part]:
    content = candidate and candidate.content
    return (content and content.parts) or []


def _blocked(response: types.GenerateContentResponse) -> LlmResponse:
    feedback = response.prompt_feedback
    code, message = UNKNOWN, "The model gave no answer and no reason."
    if feedback is not None and feedback.block_reason is not None:
        code = feedback.block_reason.value
        message = feedback.block_reason_message or f"The prompt was blocked: {code}."
    return LlmResponse(
        error_code=code,
        error_message=message,
        model_version=response.model_version,
        usage_metadata=response.usage_metadata,
    )


def _silence(reason: types.FinishReason, candidate: types.Candidate) -> tuple[str, str]:
    if reason == types.FinishReason.STOP:
        has_parts = bool(_parts(candidate))
        return NO_CONTENT, candidate.finish_message or empty_response_message(has_parts=has_parts)
    return reason.value, (
        candidate.finish_message or f"The model stopped without an answer: {reason.value}."
    )


def _fields(part: types.Part) -> set[str]:
    return {name for name in part.model_fields_set if getattr(part, name) is not None}


def _is_empty(part: types.Part) -> bool:
    return not part.text and _fields(part) <= _TEXT


def _joined_content(candidates: Iterable[types.Candidate]) -> types.Content | None:
    if all(candidate.content is None for candidate in candidates):
        return None
    joined: list[types.Part] = []
    for candidate in candidates:
        for part in _parts(candidate):
            if joined and _can_join(joined[-1], part):
                joined[-1] = types.Part(text=f"{joined[-1].text}{part.text}", thought=part.thought)
            elif not _is_empty(part):
                joined.append(part)
    return types.Content(role="model", parts=joined)


def _can_join(left: types.Part, right: types.Part) -> bool:
    # A signature belongs to exactly one part, even an empty one; joining it with another part
    # makes the next request fail (FLW-30). So only parts that contain just text are joined.
    plain = _fields(left) <= _TEXT and _fields(right) <= _TEXT
    texts = left.text is not None and right.text is not None
    return plain and texts and bool(left.thought) == bool(right.thought)


def _last(items: Iterable[Any], name: str) -> Any:
    values = [value for item in items if (value := getattr(item, name)) is not None]
    return values[-1] if values else None
