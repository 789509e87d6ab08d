"""ADK's options for a provider's prompt cache."""

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field


class ContextCacheConfig(BaseModel):
    """Accepted for compatibility with ADK, and ignored (CMP-3).

    ADK stores prompt prefixes in Gemini under an explicit cache id. That id would be state outside
    the session, created by one attempt and unknown to its retry. Gemini caches equal prefixes
    implicitly; `LlmAgent.static_instruction` keeps them equal.
    """

    model_config = ConfigDict(extra="forbid")

    cache_intervals: int = Field(default=10, ge=1, le=100)
    """Number of invocations that would share a cache."""
    ttl_seconds: int = Field(default=1800, gt=0)
    min_tokens: int = Field(default=0, ge=0)
    """Minimum size of the previous prompt, in tokens, for caching."""
    create_http_options: types.HttpOptions | None = None

    @property
    def ttl_string(self) -> str:
        """`ttl_seconds` as Gemini writes durations."""
        return f"{self.ttl_seconds}s"

    def __str__(self) -> str:
        return (
            f"ContextCacheConfig(cache_intervals={self.cache_intervals}, ttl={self.ttl_string}, "
            f"min_tokens={self.min_tokens}, create_http_options={self.create_http_options})"
        )
