"""Simulates streaming for models that produce their whole response at once."""

import re

from google.genai import types

from durable_adk.models.llm_response import LlmResponse


def word_by_word(response: LlmResponse) -> list[LlmResponse]:
    """Split `response` into partial responses of one word each (FLW-71)."""
    parts = (response.content and response.content.parts) or []
    return [
        LlmResponse(
            content=types.Content(
                role="model", parts=[types.Part(text=word, thought=part.thought)]
            ),
            partial=True,
        )
        for part in parts
        for word in re.findall(r"\s*\S+(?:\s+$)?|\s+$", part.text or "")
    ]
