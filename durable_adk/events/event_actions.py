"""The side effects an event asks for."""

from typing import Any

from pydantic import Field

from durable_adk.models.llm_response import Wire


class EventActions(Wire):
    """What is to happen when the event is committed, and after (semantics 2.4, ACT-1)."""

    skip_summarization: bool | None = None
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    artifact_delta: dict[str, int] = Field(default_factory=dict[str, int])
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, Any] = Field(default_factory=dict[str, Any])
    requested_tool_confirmations: dict[str, Any] = Field(default_factory=dict[str, Any])
    compaction: dict[str, Any] | None = None
    end_of_agent: bool | None = None
    agent_state: dict[str, Any] | None = None
    rewind_before_invocation_id: str | None = None
