"""The summarizer that asks a model."""

import pytest
from google.genai import types

from durable_adk.apps.base_events_summarizer import BaseEventsSummarizer
from durable_adk.apps.llm_event_summarizer import MAX_VALUE, LlmEventSummarizer
from durable_adk.errors import AgentDefinitionError, ModelError
from durable_adk.models.llm_response import LlmResponse
from durable_adk.models.scripted import ScriptedModel
from tests.support.histories import answer, call, event, session, text

CHAT = session(
    [
        event("user", "hi {there}"),
        event("me", text("hmm", thought=True), "calling", call("x", "seek", q="ü")),
        event("me", answer("x", "y" * 5000, "seek")),
        event("me", types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))),
    ]
)


def summarizer(reply, template: str | None = None) -> tuple[BaseEventsSummarizer, ScriptedModel]:
    """One whose model gives this reply."""
    model = ScriptedModel(replies=[reply])
    return LlmEventSummarizer(llm=model, prompt_template=template), model


async def test_the_model_is_shown_the_conversation():
    """Who said, called and got what, without thoughts; long values are cut (CMP-1)."""
    asked, model = summarizer("the summary", "Do: {conversation_history}")
    await asked.maybe_summarize_events(events=CHAT)
    (request,) = model.requests
    ((part,),) = ((content.parts or []) for content in request.contents)
    said, calling, called, answered = (part.text or "").splitlines()
    assert said == "Do: user: hi {there}"
    assert calling == "me: calling"
    assert called == 'me called tool seek: {"q": "ü"}'
    assert answered.startswith('Tool seek answered: {"v": "yyy')
    assert answered.endswith("y... [cut]")
    assert len(answered) < MAX_VALUE + 100


async def test_the_summary_is_an_event():
    """Its text, without thoughts, replaces the events from first to last (CMP-1)."""
    asked, model = summarizer([text("hmm", thought=True), text("the summary")])
    made = await asked.maybe_summarize_events(events=CHAT)
    assert made
    compaction = made.actions.compaction
    assert compaction
    assert made.compacted_event_ids == ["e0", "e3"]
    assert compaction.compacted_content == types.Content(role="model", parts=[text("the summary")])
    assert "hi {there}" in model.requests[0].contents[0].model_dump_json()


@pytest.mark.parametrize(
    "reply",
    [
        " ",
        text("only a thought", thought=True),
        LlmResponse(error_code="SAFETY"),
        LlmResponse(error_code="MAX", content=types.Content(parts=[text("half")])),
    ],
)
async def test_without_words_there_is_no_summary(reply):
    """An answer without text, or one that failed, must not take the place of events (CMP-1)."""
    asked, _ = summarizer(reply)
    assert await asked.maybe_summarize_events(events=CHAT) is None


async def test_nothing_is_not_summarised():
    """No events, no question."""
    asked, model = summarizer("x")
    assert await asked.maybe_summarize_events(events=[]) is None
    assert not model.requests


async def test_a_models_error_is_the_callers_to_log():
    """It is raised, as only who asked knows whether to try again (CMP-2)."""
    asked, _ = summarizer(ModelError("no"))
    with pytest.raises(ModelError):
        await asked.maybe_summarize_events(events=CHAT)


@pytest.mark.parametrize("template", ["no field", "{foo} {conversation_history}", "{", "{0}"])
def test_a_template_without_the_conversation_is_refused(template):
    """At once, and not in a log line after each invocation."""
    with pytest.raises(AgentDefinitionError):
        summarizer("x", template)
