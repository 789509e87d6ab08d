"""How one invocation is to run."""

import sys
from typing import Any

from pydantic import Field, field_validator

from durable_adk.models.llm_response import Wire


class RunConfig(Wire):
    """Options of one invocation (semantics 14)."""

    max_llm_calls: int = 500
    """Model calls allowed per invocation; 0 or less: any number (CTX-3)."""
    custom_metadata: dict[str, Any] | None = Field(default=None)
    """Merged into every event's `custom_metadata` (RUN-27)."""

    @field_validator("max_llm_calls")
    @classmethod
    def _below_maxsize(cls, value: int) -> int:
        if value >= sys.maxsize:
            raise ValueError(f"max_llm_calls must be less than {sys.maxsize}; 0 means no limit")
        return value
