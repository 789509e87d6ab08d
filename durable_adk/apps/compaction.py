"""Configuration of whether and how an app's sessions are summarised as they grow."""

from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.base_events_summarizer import BaseEventsSummarizer
from durable_adk.apps.llm_event_summarizer import LlmEventSummarizer
from durable_adk.errors import AgentDefinitionError


class EventsCompactionConfig(BaseModel):
    """When and how to summarise (CMP-1); needs at least one trigger (pair of fields)."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    compaction_interval: int | None = Field(default=None, gt=0)
    """Number of invocations after which to summarise; used with `overlap_size`."""
    overlap_size: int | None = Field(default=None, ge=0)
    """Number of earlier invocations to include in the summary."""
    summarizer: BaseEventsSummarizer | None = None
    """None to use the model of the first LlmAgent in the tree."""
    token_threshold: int | None = Field(default=None, gt=0)
    """Prompt tokens at which to summarise; used with `event_retention_size`."""
    event_retention_size: int | None = Field(default=None, ge=0)
    """Number of latest events to leave out of the summary."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        interval = self.compaction_interval is not None, self.overlap_size is not None
        tokens = self.token_threshold is not None, self.event_retention_size is not None
        if interval[0] != interval[1]:
            raise ValueError("compaction_interval and overlap_size go together; set both")
        if tokens[0] != tokens[1]:
            raise ValueError("token_threshold and event_retention_size go together; set both")
        if not (interval[0] or tokens[0]):
            raise ValueError(
                "no trigger is set: give compaction_interval and overlap_size, or token_threshold "
                "and event_retention_size, or all four"
            )
        return self


def summarizer_for(
    config: EventsCompactionConfig, agents: Iterable[BaseAgent]
) -> BaseEventsSummarizer:
    """Return the config's summarizer, or one that uses the model of the first LlmAgent.

    Raises:
        AgentDefinitionError: There is neither.
    """
    if config.summarizer is not None:
        return config.summarizer
    for agent in agents:
        if isinstance(agent, LlmAgent):
            return LlmEventSummarizer(llm=agent.canonical_model)
    raise AgentDefinitionError(
        "No agent of the app has a model to summarise with; give EventsCompactionConfig a "
        "summarizer."
    )
