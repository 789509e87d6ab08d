"""Options of one invocation."""

import sys
from enum import Enum
from typing import Any

from google.genai import types
from pydantic import Field, field_validator

from durable_adk.json_values import JsonModel, check_json
from durable_adk.sessions.records import GetSessionConfig
from durable_adk.settings import FiniteSeconds

_PER_CALL = {"headers", "extra_body", "timeout", "retry_options"}


class StreamingMode(Enum):
    """Whether a model's response is streamed while it is generated (RCF-1)."""

    NONE = None
    SSE = "sse"
    BIDI = "bidi"
    """For `run_live`, which is not supported."""


class ToolThreadPoolConfig(JsonModel):
    """ADK's option to run sync tools in threads, which is always on here (OPEN-7)."""

    max_workers: int = Field(default=4, ge=1)


class Budget(JsonModel):
    """Limits of an invocation, including the agents that it uses as tools. None: no limit.

    Exceeding a limit ends the invocation with an error event that names it.
    """

    model_calls: int | None = Field(default=None, ge=0)
    """Logical calls, without retries after a crash and responses of callbacks."""
    tool_calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    """Tokens as reported by the models. No further call is made once they are used up."""
    seconds: FiniteSeconds | None = Field(default=None, ge=0)
    """Wall time from the opening to the end, including the time spent waiting for answers."""

    def within(self, other: "Budget | None") -> "Budget":
        """Return the smaller limit for each amount."""
        if other is None:
            return self
        both = ((name, getattr(self, name), getattr(other, name)) for name in Budget.model_fields)
        return Budget(
            **{
                name: min((one for one in (mine, its) if one is not None), default=None)
                for name, mine, its in both
            }
        )


class Priority(JsonModel):
    """Temporal's `Priority`: the order in which a backlogged task queue dispatches tasks.

    It is an option of the workflow's start and is omitted from the invocation's request: activities
    and child workflows inherit it from the workflow.
    """

    priority_key: int | None = Field(default=None, ge=1)
    """1 is dispatched first; None: the server's default, usually 3 of 5."""
    fairness_key: str | None = Field(default=None, max_length=64)
    """Tasks of one key share capacity; None: a hash of app and user, so that users share fairly."""
    fairness_weight: float | None = Field(default=None, ge=0.001, le=1000)
    """Weight of the key relative to others; None: 1."""


class RunConfig(JsonModel):
    """Options of one invocation."""

    max_llm_calls: int = 500
    """Model calls allowed per invocation; 0 or less: unlimited (CTX-3)."""
    budget: Budget | None = None
    """Limits of the invocation; the app's limits also apply (`App.budget`)."""
    steps_per_activity: int | None = Field(default=None, ge=1)
    """How many consecutive steps one Temporal activity may perform; None: the app's
    (`App.steps_per_activity`)."""
    streaming_mode: StreamingMode = StreamingMode.NONE
    """``SSE``: partial events reach the caller while the model writes; none is stored (FLW-70)."""
    save_input_blobs_as_artifacts: bool = False
    """Whether files in the message are saved as artifacts and replaced by their names (RUN-22)."""
    custom_metadata: dict[str, Any] | None = Field(default=None)
    """Merged into every event's `custom_metadata` (RUN-27). Keys that begin with ``adk_`` are
    reserved for the runtime; a request with one is refused."""
    model_input_context: list[types.Content] | None = None
    """Shown to the model before the history, at every call; never stored (FLW-29)."""
    get_session_config: GetSessionConfig | None = None
    """Which events the agents see; all by default."""
    include_thoughts_from_other_agents: bool = False
    """Whether a model sees the thoughts of other agents (FLW-22)."""
    tool_thread_pool_config: ToolThreadPoolConfig | None = None
    """Accepted for compatibility with ADK: sync tools always run in threads."""
    priority: Priority | None = None
    """Priority while a task queue has a backlog; it has no effect in process."""
    http_options: types.HttpOptions | None = None
    """Headers, body and timeout of this invocation's model calls; they override the agent's."""
    labels: dict[str, str] | None = None
    """Sent with every model call, for the provider's billing; they override the agent's."""

    @field_validator("max_llm_calls")
    @classmethod
    def _below_maxsize(cls, value: int) -> int:
        if value >= sys.maxsize:
            raise ValueError(f"max_llm_calls must be less than {sys.maxsize}; 0 means no limit")
        return value

    @field_validator("streaming_mode")
    @classmethod
    def _one_way(cls, value: StreamingMode) -> StreamingMode:
        if value is StreamingMode.BIDI:
            raise ValueError("BIDI is for run_live, which durable_adk does not support; use SSE")
        return value

    @field_validator("http_options")
    @classmethod
    def _per_call(cls, value: types.HttpOptions | None) -> types.HttpOptions | None:
        given = {name for name, option in value if option is not None} if value else set[str]()
        others = sorted(given - _PER_CALL)
        if others:
            # A message must not choose the host to which the model's key is sent.
            raise ValueError(
                f"http_options.{others[0]} is a setting of the model's client; set it there"
            )
        return value

    @field_validator("custom_metadata")
    @classmethod
    def _storable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        check_json(value, "custom_metadata")
        return value

    def for_tool(self, budget: Budget | None) -> "RunConfig":
        """Return the options for an agent that runs as a tool, without streaming (TOL-21).

        Args:
            budget: The remaining budget for the agent's run.
        """
        changes: dict[str, Any] = {
            "budget": budget,
            "streaming_mode": StreamingMode.NONE,
            "save_input_blobs_as_artifacts": False,
            "model_input_context": None,
            "get_session_config": None,
        }
        return self.model_copy(update=changes)
