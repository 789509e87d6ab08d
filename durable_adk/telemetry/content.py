"""Content in span attributes: off by default, bounded, and redacted by a hook."""

import json
import os
from collections.abc import Callable
from typing import Any

from google.genai import types

from durable_adk.log import get_logger

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable that enables the content of model and tool calls."""
MAX_CHARACTERS = 8_192
"""Maximum length of one attribute; the rest is cut off."""
_ON = {"true", "1", "yes", "span_only", "span_and_event"}

Redact = Callable[[str, str], str | None]
"""Takes an attribute's name and text; returns the text to export, or None for nothing.

It is called in the worker's activities for each attribute with content, before the text is cut. It
must not block. If it raises, the attribute is omitted.
"""

logger = get_logger(__name__)


class _RedactionHook:
    redact: Redact | None = None


def redact_with(hook: Redact | None) -> None:
    """Set the hook that redacts all content in spans; None removes it.

    It applies to the whole process, like OpenTelemetry's providers: call it where the agents are
    defined.
    """
    _RedactionHook.redact = hook


def capturing() -> bool:
    """Whether content is enabled."""
    return os.environ.get(VARIABLE, "").strip().lower() in _ON


def captured(attribute: str, value: Any) -> dict[str, str]:
    """An attribute with content; empty unless content is enabled.

    Args:
        attribute: Name of the attribute.
        value: A text, or a value that can be serialized as JSON.
    """
    if value is None or not capturing():
        return {}
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if _RedactionHook.redact is not None:
        try:
            redacted = _RedactionHook.redact(attribute, text)
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            logger.warning("telemetry.redaction_failed", error_type=type(error).__name__)
            return {}
        if redacted is None:
            return {}
        text = redacted
    return {attribute: text[:MAX_CHARACTERS]}


def messages(contents: list[types.Content]) -> list[dict[str, Any]]:
    """Contents in the format of the GenAI conventions, without files."""
    return [
        {
            "role": "assistant" if content.role == "model" else content.role or "user",
            "parts": [_part(part) for part in content.parts or []],
        }
        for content in contents
    ]


def _part(part: types.Part) -> dict[str, Any]:
    if part.function_call is not None:
        call = part.function_call
        return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
    if part.function_response is not None:
        response = part.function_response
        return {"type": "tool_call_response", "id": response.id, "response": response.response}
    if part.text is not None:
        return {"type": "reasoning" if part.thought else "text", "content": part.text}
    return {"type": "blob"}
