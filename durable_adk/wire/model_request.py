"""The requests of model calls, rebuilt for inspection."""

from typing import Any, Self

from pydantic import Field

from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import NamesSession
from durable_adk.wire.effect import Effect
from durable_adk.wire.event_page import MAX_PAGE_BYTES
from durable_adk.wire.messages import parsed
from durable_adk.wire.run_config import RunConfig

MODEL_REQUESTS = "ModelRequests"
"""The type name of the workflow."""
MAX_CALLS = 10
"""Maximum number of model calls per step."""


class ReadModelRequestsStep(NamesSession, Effect["ModelRequests"]):
    """The argument of workflow type ``ModelRequests``: plain JSON."""

    event_ids: list[str] = Field(min_length=1, max_length=MAX_CALLS)
    """Events that model calls produced, most wanted first."""
    run_configs: dict[str, RunConfig] = Field(default_factory=dict[str, RunConfig])
    """The options of each run, as far as they are still known, by invocation id."""
    skips: bool = False
    """Whether to leave out requests that cannot be rebuilt, do not fit in size or time, or whose
    event may be the answer of a callback. Otherwise these are an error, or have a sentence on
    it."""
    max_bytes: int = Field(default=MAX_PAGE_BYTES, ge=1_000, le=MAX_PAGE_BYTES)
    """Maximum size of the requests as JSON."""
    attempt_timeout: float = Field(default=20.0, gt=0, le=60)
    """Maximum seconds for all requests together."""

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read a request, or raise InvalidRequestError naming each bad field."""
        step = parsed(cls, raw, "request for model requests")
        step.check_ids()
        return step


class ModelRequest(JsonModel):
    """The request that the agents' current code would send instead of an actual model call.

    It contains no credentials, and no bytes of files.
    """

    rebuilt: bool = True
    """Always true: the request is not stored, but built from committed events on demand."""
    event_id: str
    """The event whose request this is."""
    agent: str
    model: str | None = None
    system_instruction: str | None = None
    contents: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """The messages, as google-genai's Content."""
    tools: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """Function declarations as google-genai's Tool; of other tools only their kind."""
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The rest of google-genai's GenerateContentConfig, without `http_options`."""
    differences: list[str] = Field(default_factory=list[str])
    """Why the actual request may have been different, in sentences."""


class ModelRequests(JsonModel):
    """The result of workflow type ``ModelRequests``."""

    requests: list[ModelRequest] = Field(default_factory=list[ModelRequest])
    """The requests in the order of `event_ids`; as many as fit."""
