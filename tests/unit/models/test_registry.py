"""Which class serves which name."""

import pytest

from durable_adk.errors import AgentDefinitionError
from durable_adk.models import Gemini, LLMRegistry, OfflineModel, ScriptedModel


@pytest.fixture(autouse=True)
def own_table(monkeypatch):
    monkeypatch.setattr(LLMRegistry, "_classes", dict(LLMRegistry._classes))


@pytest.mark.parametrize(
    ("name", "llm_cls"),
    [
        ("gemini-2.5-flash", Gemini),
        ("models/gemini-3-pro", Gemini),
        ("projects/p/locations/l/endpoints/123", Gemini),
        ("projects/p/locations/l/publishers/google/models/gemini-2.5-pro", Gemini),
        ("offline", OfflineModel),
    ],
)
def test_the_built_in_names(name, llm_cls):
    """Gemini's names and `offline` are served without registration, under exactly that name."""
    llm = LLMRegistry.new_llm(name)
    assert type(llm) is llm_cls
    assert llm.model == name


@pytest.mark.parametrize("name", ["gpt-4o", "my-gemini-2", "offline2", ""])
def test_an_unknown_name_names_the_remedies(name):
    """A name must match a pattern as a whole; the error says what to do."""
    with pytest.raises(AgentDefinitionError, match=r"LLMRegistry\.register"):
        LLMRegistry.resolve(name)


def test_the_latest_registration_wins():
    """A registered class serves its names, and may take over names that were served before."""

    class Mine(ScriptedModel):
        @classmethod
        def supported_models(cls):
            return [r"mine/.*", r"gemini-.*-mine"]

    LLMRegistry.register(Mine)
    LLMRegistry.register(Mine)
    assert LLMRegistry.resolve("mine/1") is Mine
    assert LLMRegistry.resolve("gemini-2-mine") is Mine
    assert LLMRegistry.resolve("gemini-2") is Gemini
