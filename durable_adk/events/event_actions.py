"""The side effects that an event requests."""

from typing import Any, TypeAlias

from google.genai import types
from pydantic import Field, FieldSerializationInfo, field_serializer, field_validator

from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.auth.redaction import without_secrets
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.json_values import JsonModel

RouteValue: TypeAlias = bool | int | str
"""What an edge of a graph can be named by (GR-6)."""


class EventCompaction(JsonModel):
    """A summary, and the times of the events that it replaces (CMP-1).

    Times can tie (TRAP-15), so `Event.compacted_event_ids` also has the events' ids.
    """

    start_timestamp: float
    """Time of the first event, in seconds since the epoch."""
    end_timestamp: float
    """Time of the last event, in seconds since the epoch."""
    compacted_content: types.Content
    """Content for models, replacing the events."""


class EventActions(JsonModel):
    """Effects of an event at its commit and afterwards (ACT-1)."""

    skip_summarization: bool | None = None
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    state_read: dict[str, list[Any]] = Field(
        default_factory=dict[str, list[Any]], exclude_if=lambda read: not read
    )
    """The values that the code had read, by key of `state_delta`; see `sessions.state_merge`. Only
    the commit uses them; no stored event has them."""
    artifact_delta: dict[str, int] = Field(default_factory=dict[str, int])
    transfer_to_agent: str | None = None
    transfer_reason: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, AuthConfig] = Field(default_factory=dict[str, AuthConfig])
    """The credential that each call requests, by call id; without secrets (TOL-55)."""
    requested_tool_confirmations: dict[str, ToolConfirmation] = Field(
        default_factory=dict[str, ToolConfirmation]
    )
    """The confirmation that each call requests, by call id."""
    compaction: EventCompaction | None = None
    end_of_agent: bool | None = None
    agent_state: dict[str, Any] | None = None
    rewind_before_invocation_id: str | None = None
    route: RouteValue | list[RouteValue] | None = Field(
        default=None, exclude_if=lambda route: route is None
    )
    """The edges that a node of a graph chooses (GR-6)."""
    set_model_response: Any | None = None
    """The agent's final answer, set by the tool of that name; it ends the agent's run (AGT-19)."""

    @field_serializer("requested_auth_configs", when_used="json")
    def _with_defaults(
        self, configs: dict[str, AuthConfig], info: FieldSerializationInfo
    ) -> dict[str, Any]:
        # Payloads omit defaults, but readers need the type of a scheme.
        form: dict[str, Any] = {"mode": "json", "by_alias": info.by_alias, "exclude_none": True}
        return {call_id: config.model_dump(**form) for call_id, config in configs.items()}

    @field_validator("requested_auth_configs")
    @classmethod
    def _without_secrets(cls, configs: dict[str, AuthConfig]) -> dict[str, AuthConfig]:
        return {call_id: without_secrets(config) for call_id, config in configs.items()}
