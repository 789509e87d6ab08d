"""The scripted stand-in that answers when there is no key: a few rules, and no LLM."""

import re

from durable_adk.models import LlmRequest, ScriptedModel


def _write(request: LlmRequest) -> str:
    """Return the announcement, or the text with the comment at its end."""
    texts = [part.text for content in request.contents for part in content.parts or [] if part.text]
    given = texts[-1] if texts else ""
    changed = re.search(r"Text: (.*)\nComment: (.*)", given)
    if changed is None:
        return f"We are happy to announce: {given.strip().rstrip('.')}."
    text, comment = changed.groups()
    return f"{text.rstrip('.')} ({comment.strip().rstrip('.')})."


writer = ScriptedModel(replies=_write)
