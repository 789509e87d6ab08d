"""The side effects an event asks for."""

from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.json_values import JsonModel


class EventCompaction(JsonModel):
    """A summary, and the stretch of events that it stands for (semantics CMP-1).

    ADK names the stretch by timestamps only, and those can tie (TRAP-15). The ids are ours, go
    before them, and are missing from what ADK wrote.
    """

    start_timestamp: float
    """Of the first event; seconds since the epoch."""
    end_timestamp: float
    """Of the last event; seconds since the epoch."""
    compacted_content: types.Content
    """Content sent to models instead of the events."""
    first_event_id: str | None = None
    last_event_id: str | None = None


class EventActions(JsonModel):
    """What is to happen when the event is committed, and after (semantics 2.4, ACT-1)."""

    skip_summarization: bool | None = None
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    artifact_delta: dict[str, int] = Field(default_factory=dict[str, int])
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, Any] = Field(default_factory=dict[str, Any])
    requested_tool_confirmations: dict[str, Any] = Field(default_factory=dict[str, Any])
    compaction: EventCompaction | None = None
    end_of_agent: bool | None = None
    agent_state: dict[str, Any] | None = None
    rewind_before_invocation_id: str | None = None
    set_model_response: Any | None = None
    """The agent's final answer, by the tool of that name; it ends the agent's run (AGT-19)."""
