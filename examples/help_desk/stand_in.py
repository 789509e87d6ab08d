"""The scripted stand-in that answers when there is no key: a few rules, and no LLM."""

import re
from typing import Any

from google.genai import types

from durable_adk.models import LlmRequest, ScriptedModel

HELP = 'Ask "Is invoice 4712 paid?", "My mail does not work." or "What are the opening hours?".'
RULES = (
    (r"invoice (?P<number>\d+)", "get_invoice", "billing"),
    (r"\b(?P<service>mail|telephone|television)\b", "check_service", "technical"),
    (r"\bhours(?: on (?P<day>\w+))?", "opening_hours", "general"),
)
"""What a message is about, the tool for it, and the agent that has the tool."""


def _answer(request: LlmRequest) -> str | types.Part:
    """What the tool has found, a call of the tool, or the hand-over to the agent that has it."""
    parts = [part for content in request.contents for part in content.parts or []]
    if parts and (result := parts[-1].function_response):
        return _sentence(result.response or {})
    # The last that fits: after it comes only what is said of hand-overs.
    for text in reversed([part.text or "" for part in parts]):
        for pattern, tool, agent in RULES:
            if found := re.search(pattern, text, re.IGNORECASE):
                args = {name: value for name, value in found.groupdict().items() if value}
                if tool in request.tools_dict:
                    return types.Part.from_function_call(name=tool, args=args)
                args = {"agent_name": agent}
                return types.Part.from_function_call(name="transfer_to_agent", args=args)
    return HELP


def _sentence(found: dict[str, Any]) -> str:
    if "state" in found:
        return f"The invoice of {found['amount']:.2f} euros is {found['state']}."
    return str(found.get("error") or found.get("result"))


anybody = ScriptedModel(replies=_answer)
