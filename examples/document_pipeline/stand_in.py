"""The scripted stand-in that answers when there is no key: a rule, and no LLM."""

from durable_adk.models import LlmRequest, ScriptedModel


def _summary(request: LlmRequest) -> str:
    """Return the first sentence of the page."""
    texts = [part.text for content in request.contents for part in content.parts or [] if part.text]
    page = texts[-1] if texts else ""
    return f"{page.partition('.')[0].strip()}."


reader = ScriptedModel(replies=_summary)
