"""One long-term memory."""

from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.json_values import JsonModel


class MemoryEntry(JsonModel):
    """A message from the past (MEM-2)."""

    content: types.Content
    custom_metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    id: str | None = None
    """Unique within the user's memories of one session; None until stored."""
    author: str | None = None
    timestamp: str | None = None
    """Time of the message, in ISO 8601."""

    @property
    def text(self) -> str:
        """The text of all parts except thoughts, joined with newlines."""
        parts = self.content.parts or []
        return "\n".join(part.text for part in parts if part.text and not part.thought)
