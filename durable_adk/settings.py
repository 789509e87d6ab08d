"""Settings and limits, with measured defaults."""

import hashlib
import math
import os
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from durable_adk.errors import AgentDefinitionError, InvalidRequestError

DEFAULT_TASK_QUEUE = "durable-adk"
PAYLOAD_THRESHOLD = 262_144
"""Minimum size, in bytes, of a payload for external storage, if configured. The result of an
invocation, at most 64 Ki characters, is smaller, so clients without the storage can read it."""


MAX_SECONDS = 1e10
"""Maximum duration, three centuries; longer ones, which event loops and servers reject, are cut to
it."""
FiniteSeconds = Annotated[
    float, Field(allow_inf_nan=False), AfterValidator(lambda seconds: min(seconds, MAX_SECONDS))
]
"""Seconds of a timer. No limit is None, not infinity."""


def checked_seconds(value: float | timedelta | None, option: str) -> float | None:
    """Return a duration in seconds, at most MAX_SECONDS.

    Args:
        value: Seconds or a timedelta.
        option: The option it comes from, for the error.

    Raises:
        AgentDefinitionError: It is not a positive, finite number.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise AgentDefinitionError(f"The {option} is {value!r}; pass seconds above 0, or None.")
    return None if seconds is None else min(seconds, MAX_SECONDS)


class Limits(BaseModel):
    """Limits of a worker's activities: times in seconds and sizes in bytes.

    They are recorded when an invocation opens, so a deploy that changes them does not affect open
    invocations (D6).
    """

    model_config = ConfigDict(extra="ignore")

    model_timeout: FiniteSeconds = Field(default=120.0, gt=0)
    """Timeout of a model call, callbacks included."""
    model_attempts: int = 5
    """Attempts of a call to an unavailable model. Attempts lost with a worker count; attempts that
    failed because the session store did not respond do not."""
    tool_timeout: FiniteSeconds = Field(default=600.0, gt=0)
    """Timeout of a tool call, callbacks included, unless the tool has its own."""
    callback_timeout: FiniteSeconds = Field(default=60.0, gt=0)
    """Timeout of one list of agent callbacks."""
    heartbeat_timeout: FiniteSeconds = Field(default=20.0, gt=0)
    """Seconds without a heartbeat after which another worker takes over an activity (D19). A worker
    on the machine of a process that has died takes over at once."""
    max_history_events: int = Field(default=2000, ge=1)
    """History events of a workflow run before it continues as new (D10)."""
    max_history_bytes: int = Field(default=2_000_000, ge=1)
    """The same in bytes; the server terminates a run at 50 MB or 51,200 events."""
    local_commit_timeout: FiniteSeconds = Field(default=1.0, gt=0)
    """Seconds for a commit as a local activity, during which the workflow receives no messages;
    after that it is retried as a normal activity (D4)."""

    max_node_runs: int = Field(default=20_000, ge=1)
    """Runs of nodes of graphs that one invocation may begin; the next one fails it. A loop of a
    graph may have no model call that another limit ends."""
    max_queued_per_session: int = Field(default=500, ge=1)
    """Messages that may wait for a session; more are refused with QueueFullError."""
    max_queued_per_user: int = Field(default=2000, ge=1)
    """The same for all sessions of a user of an app together."""
    session_cache_bytes: int = Field(default=256_000_000, ge=0)
    """Estimated size of a worker's cache of events of recently used sessions. A larger session is
    read at each of its steps. 0: no cache."""

    max_stuck_threads: int = Field(default=100, ge=1)
    """Threads that may still run sync code of steps that have ended. Above this limit the worker
    leaves its steps to other workers and exits."""
    blocked_timeout: FiniteSeconds = Field(default=30.0, ge=1.0)
    """Seconds for which user code may block its event loop before the worker likewise exits."""
    max_worker_exits: int = Field(default=10, ge=1)
    """Workers of one build in a row that may shut down during a step before the step fails. The
    count restarts with an attempt that ends in another way, and with a new build."""
    max_lost_workers: int = Field(default=10, ge=1)
    """Workers in a row that may be lost during a workflow task, from its second attempt on, before
    the invocation fails: the task runs the bodies of custom agents. Progress restarts the count;
    failed attempts do not count."""


WebhookType = Literal[
    "invocation.paused", "invocation.completed", "invocation.failed", "invocation.cancelled"
]
WEBHOOK_TYPES: tuple[WebhookType, ...] = get_args(WebhookType)
MIN_ANSWER_KEY = 32
_PUSH_HOST = re.compile(r"(?:([\w.-]+)|\[([^]]*:[^]]*)\])(:[0-9]{1,5})?")


def host_name(host: str) -> str:
    """Return a URL's host as a `PushHost` has it: IPv6 addresses in brackets and compressed.

    Raises:
        ValueError: It has a colon and is not an IPv6 address.
    """
    return f"[{IPv6Address(host)}]" if ":" in host else host.lower()


def _checked_push_host(text: str) -> str:
    name = None
    if found := _PUSH_HOST.fullmatch(text):
        with suppress(ValueError):
            name = host_name(found[1] or found[2])
    if found is None or name is None:
        raise ValueError(
            f"DURABLE_ADK_PUSH_HOSTS: {text!r} is no host. Give one as hooks.internal or "
            "hooks.internal:8443; an IPv6 address needs brackets, as [fd00::1] or [fd00::1]:8443"
        )
    return name + (found[3] or "")


def _is_web_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:  # the text has the URL, which may have a token
        return False


def _checked_answer_url(text: str) -> str:
    if not _is_web_url(text):
        raise ValueError("give the https or http URL at which receivers reach a server")
    return text


def _checked_answer_key(key: SecretStr) -> SecretStr:
    if len(key.get_secret_value()) < MIN_ANSWER_KEY:
        raise ValueError(f"give a secret of at least {MIN_ANSWER_KEY} characters")
    return key


AnswerUrl = Annotated[str, AfterValidator(_checked_answer_url)]
AnswerKey = Annotated[SecretStr, AfterValidator(_checked_answer_key)]
PushHost = Annotated[str, AfterValidator(_checked_push_host)]
"""A host as ``name`` or ``name:port``, in lower case; IPv6 addresses are in brackets."""


class WebhookEndpoint(BaseModel):
    """A webhook's destination. Only an operator sets it: no message or model can add a URL."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: SecretStr
    """An ``https`` or ``http`` URL; it may contain a token of the receiver."""
    secret: SecretStr
    """The secret that webhooks are signed with, as base64 after ``whsec_``: 24 to 64 bytes."""
    types: tuple[WebhookType, ...] = WEBHOOK_TYPES
    apps: tuple[str, ...] | None = None
    """Names of the apps; None: all."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr) -> SecretStr:
        if not _is_web_url(url.get_secret_value()):
            raise ValueError(
                "DURABLE_ADK_WEBHOOKS: give an https or http URL; an IPv6 address needs brackets, "
                "as https://[fd00::1]:8443/"
            )
        return url

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: SecretStr) -> SecretStr:
        try:
            found = b64decode(secret.get_secret_value().removeprefix("whsec_"), validate=True)
        except ValueError:
            found = b""
        if not 24 <= len(found) <= 64:  # noqa: PLR2004 - of the specification
            raise ValueError("give 24 to 64 random bytes in base64, with whsec_ before them")
        return secret

    @property
    def id(self) -> str:
        """An id of the endpoint that does not reveal its URL."""
        return hashlib.sha256(self.url.get_secret_value().encode()).hexdigest()[:16]


class Webhooks(BaseModel):
    """A worker's endpoints, and the settings of URLs that answer pending calls."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    endpoints: tuple[WebhookEndpoint, ...] = ()
    answer_url: AnswerUrl | None = None
    """See `Settings.answer_url`; None: webhooks have no URL that answers a call."""
    answer_key: AnswerKey | None = None
    push_hosts: tuple[PushHost, ...] = ()
    """See `Settings.push_hosts`."""

    @model_validator(mode="after")
    def _check_both(self) -> Self:
        if self.answer_url is not None and self.answer_key is None:
            raise ValueError("answer_url needs an answer_key")
        return self


class Settings(BaseSettings):
    """Settings of the command line's processes, from ``DURABLE_ADK_*`` variables.

    Temporal's address and credentials come from the SDK's environment configuration
    (``TEMPORAL_ADDRESS``, profiles, TLS, API keys; D18).
    """

    model_config = SettingsConfigDict(
        env_prefix="DURABLE_ADK_",
        extra="ignore",
        hide_input_in_errors=True,  # they may be secrets, and errors are logged
    )

    data_dir: Path = Path(".durable-adk")
    """Folder of the embedded server's and the stores' files."""
    store: str | None = None
    """Database URL of the session store; None: SQLite in `data_dir`."""
    artifacts: Path | str | None = None
    """Folder of the artifacts, or URI of an object store such as ``s3://bucket/prefix``; None:
    ``artifacts`` in `data_dir`."""
    memory: str | None = None
    """SQLite file or PostgreSQL URL of the memory service; None: the session store's database if
    that is PostgreSQL, else ``memory.db`` in `data_dir`."""
    partials: SecretStr | None = None
    """URL of a Redis server that transports partial events, the same for all clients and workers;
    None: the default channel of the session store (D8)."""
    credentials: str | None = None
    """Folder of users' credentials, accessible to its owner only, or PostgreSQL URL, where they are
    encrypted with `encryption_keys`. None: the session store's database if that is PostgreSQL and
    there are keys, else ``credentials`` in `data_dir`."""
    payloads: Path | str | None = None
    """External storage of large or private payloads: a folder or the URI of an object store, the
    same for all clients and workers of a namespace. None: ``payloads`` in `data_dir` for
    the embedded server; with any other Temporal, all payloads are in its histories (D16)."""
    payload_threshold: int = Field(default=PAYLOAD_THRESHOLD, ge=0)
    """Minimum size, in bytes, of a payload that goes there; 0: all payloads with content."""
    encryption_keys: Path | None = None
    """File of the keys that encrypt all payloads in Temporal, accessible to its owner only. The
    first key encrypts, all decrypt. None: payloads are plain JSON (D16)."""
    encryption_accepts_plain: bool = False
    """Whether unencrypted payloads are accepted. Required while invocations that started without
    keys are open."""
    codec_token: SecretStr | None = None
    """The token of ``durable-adk codec``; None: the command generates one and prints it."""
    task_queue: str = DEFAULT_TASK_QUEUE
    build_id: str | None = None
    """The build id of ``durable-adk worker``, for Worker Versioning; None: no versioning (D6)."""
    deployment: str | None = None
    """The deployment of that build; None: the name of the task queue."""
    auto_upgrade: bool = False
    """Whether open invocations move to the build that becomes current; else they stay on theirs."""
    model_task_queues: dict[str, str] = Field(default_factory=dict[str, str])
    """Task queues of models for ``durable-adk worker``, by model name."""
    max_task_queue_activities_per_second: float | None = Field(
        default=None, gt=0, allow_inf_nan=False
    )
    """Activities per second on the task queue of ``durable-adk worker``, over all workers."""
    search_attributes: Literal["auto", "impersonal", "assume", "off"] = "auto"
    """Which search attributes a start sets. ``auto``: those that the namespace has; ``impersonal``:
    the same without the ids of user and session; ``assume``: all, without reading the namespace;
    ``off``: none (D18)."""
    webhooks: list[WebhookEndpoint] = Field(default_factory=list[WebhookEndpoint])
    """Where ``durable-adk worker`` sends webhooks: a JSON list of URLs and secrets."""
    answer_url: AnswerUrl | None = None
    """The public URL of a ``durable-adk serve``, for URLs in webhooks that answer one call."""
    answer_key: AnswerKey | None = None
    """The key that signs those URLs, at least 32 characters; the same for workers and servers."""
    push_hosts: list[PushHost] = Field(default_factory=list[PushHost])
    """Hosts, as ``name`` or ``name:port``, to which push notifications of A2A may go by plain http
    and at addresses that are not public; the same for workers and servers."""
    limits: Limits = Field(default_factory=Limits)

    @model_validator(mode="after")
    def _check_answers(self) -> Self:
        if self.answer_url is not None and self.answer_key is None:
            raise ValueError(
                "DURABLE_ADK_ANSWER_URL needs DURABLE_ADK_ANSWER_KEY, a secret of at least "
                f"{MIN_ANSWER_KEY} characters that workers and servers share"
            )
        return self

    def webhooks_of_worker(self) -> Webhooks | None:
        """Return the webhooks that a worker sends; None: only push notifications of A2A."""
        if not self.webhooks and not self.push_hosts:
            return None
        return Webhooks(
            endpoints=tuple(self.webhooks),
            answer_url=self.answer_url,
            answer_key=self.answer_key,
            push_hosts=tuple(self.push_hosts),
        )


S = TypeVar("S", bound=BaseSettings)
_OBJECT = "give a JSON object"
_UNREAD = re.compile(r'field "(\w+)"')
"""Extracts the field's name from the text of a `SettingsError`, which has it nowhere else."""


def read_settings(kind: type[S], **given: Any) -> S:
    """Return settings from the environment.

    Args:
        kind: Their class.
        given: Values of fields that are not read from it.

    Raises:
        InvalidRequestError: One is invalid; the message names its variable, without its value.
    """
    try:
        return kind(**given)
    except SettingsError as error:
        found = _UNREAD.search(str(error))
        name = variable_of(kind, found[1]) if found else kind.model_config.get("env_prefix", "")
        raise InvalidRequestError(
            f"{name} is not JSON ({error.__cause__}). A list is JSON, too, such as "
            '["agents.example.com"].'
        ) from None
    except ValidationError as error:
        wrong = [
            _problem(kind, one["loc"], _OBJECT if one["type"] == "model_type" else one["msg"])
            for one in error.errors()
        ]
        raise InvalidRequestError("; ".join(wrong)) from None


def variable_of(kind: type[BaseSettings], field: str) -> str:
    """Return the environment variable of a field or of its alias."""
    known = kind.model_fields.get(field)
    alias = field if known is None else known.validation_alias
    return (
        alias
        if isinstance(alias, str)
        else f"{kind.model_config.get('env_prefix', '')}{field}".upper()
    )


def _problem(kind: type[BaseSettings], place: tuple[int | str, ...], text: str) -> str:
    said = text.removeprefix("Value error, ")
    if not place:
        return said
    first, *inner = map(str, place)
    name = variable_of(kind, first)
    where = f"{name} ({'.'.join(inner)})" if inner else name
    return said if said.startswith(name) else f"{where}: {said}"


OWN_PREFIXES = ("DURABLE_ADK_", "TEMPORAL_", "OTEL_")
"""Prefixes of the variables that a process reads before it loads any agent."""
_DISABLED = "ADK_DISABLE_LOAD_DOTENV"
"""ADK's variable that switches `.env` files off."""


@cache
def _environment() -> frozenset[str]:
    """Return the variables that were set before the first file; no file overrides them."""
    return frozenset(os.environ)


@dataclass(frozen=True)
class EnvFile:
    """The `.env` file of an agent's folder, as it was read."""

    path: Path
    names: list[str]
    """Variables that it has set."""
    ignored: list[str]
    """Variables that are read from the environment only, see `OWN_PREFIXES`."""


_searched: dict[Path, Path | None] = {}
"""The file found for each folder searched."""


def read_env_file(folder: Path) -> EnvFile | None:
    """Set the variables of the nearest `.env` file in an agent's folder or above, as ADK does.

    The environment takes precedence over files, and a file loaded later over earlier ones.

    Returns:
        The file; None if there is none, or it was read for this folder before.
    """
    if folder in _searched or os.environ.get(_DISABLED, "").lower() in ("1", "true"):
        return None
    above = (one / ".env" for one in (folder, *folder.parents))
    path = _searched[folder] = next((one for one in above if one.is_file()), None)
    if path is None:
        return None
    values = dotenv_values(path)
    names = [n for n, text in values.items() if text is not None and n not in _environment()]
    ignored = [name for name in names if name.startswith(OWN_PREFIXES)]
    chosen = {name: values[name] or "" for name in names if name not in ignored}
    os.environ.update(chosen)
    return EnvFile(path, list(chosen), ignored)


def env_files() -> list[Path]:
    """Return the files that `read_env_file` has read."""
    return [path for path in _searched.values() if path is not None]


def env_files_searched() -> Iterator[str]:
    """Describe where `read_env_file` searched, for messages about a missing variable."""
    for folder, path in _searched.items():
        yield f"{path} does not set it" if path else f"no .env file is in {folder} or above"
