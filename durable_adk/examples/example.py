"""One example of a conversation."""

from google.genai import types
from pydantic import BaseModel


class Example(BaseModel):
    """What a user says, and what should follow."""

    input: types.Content
    output: list[types.Content]
    """The model's contents, and the responses of the functions it calls in between."""
