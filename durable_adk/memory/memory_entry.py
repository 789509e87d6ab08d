"""One thing that is remembered."""

from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.json_model import JsonModel


class MemoryEntry(JsonModel):
    """A message out of the past (semantics MEM-2)."""

    content: types.Content
    custom_metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    id: str | None = None
    """Unique among the user's memories of one session; None until it is stored."""
    author: str | None = None
    timestamp: str | None = None
    """When it was said, in ISO 8601."""

    @property
    def text(self) -> str:
        """The text of all parts that are not thoughts, a line between each."""
        parts = self.content.parts or []
        return "\n".join(part.text for part in parts if part.text and not part.thought)
