"""One example of a conversation."""

from google.genai import types
from pydantic import BaseModel


class Example(BaseModel):
    """A user's message, and the conversation that should follow."""

    input: types.Content
    output: list[types.Content]
    """The model's contents, and the responses to its function calls in between."""
