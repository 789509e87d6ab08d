"""What a model answered."""

from typing import Any, Self

from google.genai import types
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """A value that is written as ADK's JSON: camelCase, no nulls, bytes as base64 (EVT-3).

    Constructing one with an unknown field is an error; reading one ignores it, so that a newer
    writer does not break an older reader.
    """

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        protected_namespaces=(),
    )

    def to_json(self) -> str:
        """The value as one line of JSON."""
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The value that `to_json` wrote, by this or a newer version."""
        return cls.model_validate_json(text, extra="ignore")

    @classmethod
    def read(cls, value: Any) -> Self:
        """The value that a process of this or a newer version wrote as a JSON object."""
        return cls.model_validate(value, extra="ignore")


NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"
"""The error of an answer that stopped by itself and says nothing (semantics FLW-5)."""
_NOT_SAID = {"text", "thought", "thought_signature", "part_metadata"}


def says_something(part: types.Part) -> bool:
    """Whether the part is more than a blank text or a thought."""
    if part.text and part.text.strip() and not part.thought:
        return True
    fields = {name for name in part.model_fields_set if getattr(part, name) is not None}
    return not fields <= _NOT_SAID


class LlmResponse(Wire):
    """One answer of a model, whole or (`partial`) a chunk of it (semantics 2.1, EVT-1)."""

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
        """The answer; as an error if it stopped by itself and says nothing (semantics 17.1)."""
        parts = (self.content.parts or []) if self.content else []
        stopped = self.finish_reason is types.FinishReason.STOP and not self.error_code
        if self.partial or not stopped or any(map(says_something, parts)):
            return self
        message = "The model stopped without an answer."
        return self.model_copy(update={"error_code": NO_CONTENT, "error_message": message})
