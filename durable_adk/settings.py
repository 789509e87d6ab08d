"""What can be configured, with the values measured to be good (reliability 10)."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_TASK_QUEUE = "durable-adk"
PAYLOAD_THRESHOLD = 262_144
"""Bytes from which on a payload is kept outside of Temporal, where that is set up. An invocation's
result, of 64 Ki characters, is below it: clients without our storage read it."""


class Limits(BaseModel):
    """Times in seconds and sizes in bytes that a worker holds its activities to.

    They are recorded when an invocation opens, so that changing them in a deploy does not disturb
    the invocations that are open (design D6).
    """

    model_config = ConfigDict(extra="ignore")

    model_timeout: float = 120.0
    """One model call, callbacks included."""
    model_attempts: int = 5
    """How often a model that is unavailable is asked; attempts lost with a worker count too, those
    for which the session store did not answer do not."""
    tool_timeout: float = 600.0
    """One tool call, callbacks included, unless the tool says otherwise."""
    callback_timeout: float = 60.0
    """One list of agent callbacks."""
    heartbeat_timeout: float = 2.0
    """How soon a dead worker's activity is given to another (design D19)."""
    max_history_events: int = Field(default=2000, ge=1)
    """How many events a run of a workflow may have before it continues as new (design D10)."""
    max_history_bytes: int = Field(default=2_000_000, ge=1)
    """The same in bytes; the server ends a run at 50 MB or 51,200 events."""
    local_commit_timeout: float = 1.0
    """How long a commit may make the workflow deaf before it becomes a normal activity (D4)."""

    max_queued_per_session: int = Field(default=500, ge=1)
    """Messages that may wait for one session; one more is refused with QueueFullError."""
    max_queued_per_user: int = Field(default=2000, ge=1)
    """The same for all sessions of one user of an app together."""
    session_cache_bytes: int = Field(default=256_000_000, ge=0)
    """Memory that a worker keeps events of recently used sessions in, as estimated; a session that
    takes more by itself is read at each of its steps. 0: none are kept."""

    max_stuck_threads: int = Field(default=100, ge=1)
    """Threads of a worker that may go on running sync code after its step has ended; with one more
    the worker hands its steps to others and ends."""
    blocked_timeout: float = Field(default=30.0, ge=1.0)
    """How long user code may block a worker's event loop before it does the same."""


class Settings(BaseSettings):
    """Settings of processes started by the command line, from ``DURABLE_ADK_*`` variables.

    Where Temporal is and how to sign in is not here: that is the SDK's own environment
    configuration (``TEMPORAL_ADDRESS``, profiles, TLS, API keys; design D18).
    """

    model_config = SettingsConfigDict(env_prefix="DURABLE_ADK_", extra="ignore")

    data_dir: Path = Path(".durable-adk")
    """Where the embedded server and store keep their files."""
    store: str | None = None
    """Database URL of the session store; None: SQLite in `data_dir`."""
    artifacts: Path | str | None = None
    """Folder of the artifacts, or the uri of an object store such as ``s3://bucket/prefix``; None:
    ``artifacts`` in `data_dir`."""
    memory: str | None = None
    """SQLite file or PostgreSQL URL of the memory service; None: with a PostgreSQL store that
    database, else ``memory.db`` in `data_dir`."""
    partials: SecretStr | None = None
    """URL of a Redis that carries the chunks of streamed answers, the same one for all clients and
    workers; None: the session store's own way (design D8)."""
    credentials: str | None = None
    """Folder of users' credentials, for its owner only, or PostgreSQL URL, where they are encrypted
    with `encryption_keys`; None: with a PostgreSQL store and keys that database, else
    ``credentials`` in `data_dir`."""
    payloads: Path | str | None = None
    """Folder, or uri of an object store, of what is too large or too private for Temporal, the same
    one for all clients and workers of a namespace; None: ``payloads`` in `data_dir` for the
    embedded server, and with any other Temporal all payloads are in its history (design D16)."""
    payload_threshold: int = Field(default=PAYLOAD_THRESHOLD, ge=0)
    """Bytes from which on a payload is kept there; 0: whatever says anything."""
    encryption_keys: Path | None = None
    """File of the keys that all payloads in Temporal are encrypted with, for its owner only; the
    first one encrypts, all decrypt. None: payloads are plain JSON (design D16)."""
    encryption_accepts_plain: bool = False
    """Whether payloads that are not encrypted are read all the same: while invocations are open
    that began without keys."""
    codec_token: SecretStr | None = None
    """What ``durable-adk codec`` asks its callers for; None: it makes one and shows it."""
    task_queue: str = DEFAULT_TASK_QUEUE
    build_id: str | None = None
    """Of the code of ``durable-adk worker``, for Worker Versioning; None: without (design D6)."""
    deployment: str | None = None
    """What that build is of; None: named after the task queue."""
    auto_upgrade: bool = False
    """Whether open invocations go on with the build that becomes current; else on their own."""
    model_task_queues: dict[str, str] = Field(default_factory=dict[str, str])
    """By a model's name, on which task queue ``durable-adk worker`` has it called."""
    max_task_queue_activities_per_second: float | None = Field(default=None, gt=0)
    """Activities a second on the task queue of ``durable-adk worker``, over all its workers."""
    search_attributes: Literal["auto", "impersonal", "assume", "off"] = "auto"
    """Which ones a start sets: those that the namespace has; the same without the ids of user and
    session; all, without asking the namespace; none (design D18)."""
    limits: Limits = Field(default_factory=Limits)
