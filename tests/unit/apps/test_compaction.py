"""Whether and how an app's sessions are summarised."""

import pytest
from pydantic import ValidationError

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.apps.compaction import EventsCompactionConfig, summarizer_for
from durable_adk.apps.llm_event_summarizer import LlmEventSummarizer
from durable_adk.errors import AgentDefinitionError
from durable_adk.models.scripted import ScriptedModel


@pytest.mark.parametrize(
    "triggers",
    [
        {"compaction_interval": 1, "overlap_size": 0},
        {"compaction_interval": 2, "overlap_size": 5},
        {"token_threshold": 1, "event_retention_size": 0},
        {
            "compaction_interval": 1,
            "overlap_size": 0,
            "token_threshold": 1,
            "event_retention_size": 0,
        },
    ],
)
def test_triggers_are_pairs(triggers):
    """Either pair will do, or both (CMP-1)."""
    assert EventsCompactionConfig(**triggers).model_dump(exclude_none=True) == triggers


@pytest.mark.parametrize(
    ("triggers", "named"),
    [
        ({}, "no trigger"),
        ({"compaction_interval": 1}, "overlap_size"),
        ({"overlap_size": 0}, "compaction_interval"),
        ({"token_threshold": 1}, "event_retention_size"),
        ({"compaction_interval": 1, "overlap_size": 0, "event_retention_size": 1}, "token_thr"),
        ({"compaction_interval": 0, "overlap_size": 0}, "compaction_interval"),
        ({"compaction_interval": 1, "overlap_size": -1}, "overlap_size"),
        ({"token_threshold": 0, "event_retention_size": 0}, "token_threshold"),
        ({"token_threshold": 1, "event_retention_size": -1}, "event_retention_size"),
        ({"compaction_interval": 1, "overlap_size": 0, "interval": 1}, "interval"),
    ],
)
def test_half_a_trigger_is_refused(triggers, named):
    """No trigger, half a pair, a number out of range or an unknown field (CMP-1)."""
    with pytest.raises(ValidationError, match=named):
        EventsCompactionConfig(**triggers)


def test_the_summarizer_is_the_configs_own_or_asks_the_first_model():
    """Without one, the first agent of the tree that has a model lends it (CMP-1)."""
    config = EventsCompactionConfig(compaction_interval=1, overlap_size=0)
    model = ScriptedModel()
    tree = SequentialAgent(name="root", sub_agents=[LlmAgent(name="a", model=model)])
    made = summarizer_for(config, tree.walk())
    assert isinstance(made, LlmEventSummarizer)
    assert made._llm is model
    own = config.model_copy(update={"summarizer": made})
    assert summarizer_for(own, []) is made
    with pytest.raises(AgentDefinitionError):
        summarizer_for(config, [SequentialAgent(name="empty")])
