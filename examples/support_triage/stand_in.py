"""The scripted stand-ins that answer when there is no key: a few rules, and no LLM."""

import json
import re

from durable_adk.models import LlmRequest, ScriptedModel

_TOPICS = {"billing": r"invoice|charged|refund|pay", "technical": r"error|crash|login|slow|broken"}


def _given(request: LlmRequest) -> str:
    texts = [part.text for content in request.contents for part in content.parts or [] if part.text]
    return texts[-1].strip() if texts else ""


def _classify(request: LlmRequest) -> str:
    """Return a ticket by the words of the message."""
    text = _given(request)
    found = [name for name, words in _TOPICS.items() if re.search(words, text, re.IGNORECASE)]
    urgent = bool(re.search(r"now|urgent|!|today", text, re.IGNORECASE))
    ticket = {"topic": found[0] if found else "other", "urgent": urgent, "summary": text}
    return json.dumps(ticket)


def _billing(request: LlmRequest) -> str:
    return f"We looked at your account. About '{_given(request)}': the amount will be corrected."


def _technical(request: LlmRequest) -> str:
    return f"Please sign out and in again. If '{_given(request)}' stays, send us the log."


classifier = ScriptedModel(replies=_classify)
billing = ScriptedModel(replies=_billing)
technical = ScriptedModel(replies=_technical)
