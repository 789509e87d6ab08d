"""ADK's options for a provider's cache of prompts."""

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field


class ContextCacheConfig(BaseModel):
    """Accepted for ADK's sake, and passed on to nobody (semantics CMP-3).

    ADK has Gemini keep the beginning of prompts under an id of its own. That id would be state
    outside the session that one attempt makes and the next one does not know. Gemini caches equal
    beginnings by itself; `LlmAgent.static_instruction` keeps them equal.
    """

    model_config = ConfigDict(extra="forbid")

    cache_intervals: int = Field(default=10, ge=1, le=100)
    """Invocations that would use the same cache."""
    ttl_seconds: int = Field(default=1800, gt=0)
    min_tokens: int = Field(default=0, ge=0)
    """Tokens of the prompt before, from which on there would be a cache."""
    create_http_options: types.HttpOptions | None = None
