"""`request_input`: a tool with which a model asks the user a question."""

from typing import Any

from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.tools.long_running_tool import LongRunningFunctionTool


def _ask(message: str, response_schema: dict[str, Any] | None = None) -> None:
    """Ask the user a question, and wait for the answer.

    Use this when you need to know more before you go on.

    Args:
        message: The question.
        response_schema: JSON schema of the answer: {"type": "string"} for text, {"type": "boolean"}
            for yes or no, or that of an object.
    """


request_input = LongRunningFunctionTool(_ask, name=REQUEST_INPUT)
"""Pauses the invocation until the question is answered, like a node's `RequestInput` (GR-2)."""
