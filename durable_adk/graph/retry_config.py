"""`RetryConfig` of a node: which of its errors are retried, and when."""

import inspect
import math
from collections.abc import Iterable
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from durable_adk.errors import DurableAdkError, WorkflowConfigurationError
from durable_adk.graph.names import check_keywords

_ATTEMPTS, _INITIAL, _MAX, _FACTOR, _JITTER = 5, 1.0, 60.0, 2.0, 1.0


class Uniform(Protocol):
    """The part of `random.Random` that a delay uses."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between a and b."""
        ...


class NodeRetryConfig(BaseModel):
    """Which errors of a node are retried, and when (GR-110).

    ADK calls it `RetryConfig`, and so does `durable_adk.workflow`. `tools.RetryConfig` is for
    tools.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_attempts: int | None = Field(default=None, ge=0)
    """Maximum number of attempts, the first included; 0 and 1: no retry. None: 5."""
    initial_delay: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds before the second attempt. None: 1."""
    max_delay: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Maximum seconds before an attempt. None: 60."""
    backoff_factor: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Factor by which each delay is longer than the previous one. None: 2."""
    jitter: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Maximum share by which chance changes a delay; 0: none. None: 1."""
    exceptions: list[str] | None = None
    """Names of exception classes, which may be given as classes; subclasses match too. None: all
    exceptions."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        return check_keywords(cls, data)

    @field_validator("exceptions", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Convert classes to names: the record of a graph is data."""
        return [_name(item) for item in cast("list[Any]", value)] if _listed(value) else value

    @property
    def attempts(self) -> int:
        """The maximum number of attempts, the first included; at least 1."""
        return max(1, _ATTEMPTS if self.max_attempts is None else self.max_attempts)

    def allows(self, error_names: Iterable[str], attempt: int) -> bool:
        """Return whether there is another attempt.

        Args:
            error_names: `error_names` of the exception that ended the attempt.
            attempt: The number of that attempt: 1, 2, ...
        """
        if attempt >= self.attempts:
            return False
        return self.exceptions is None or not set(self.exceptions).isdisjoint(error_names)

    def delay(self, attempt: int, random: Uniform) -> float:
        """Return the seconds between the attempt of this number (1, 2, ...) and the next one.

        Args:
            attempt: The number of the attempt that failed.
            random: The source of the jitter; seeded, where the delay must be the same again.
        """
        longest = _given(self.max_delay, _MAX)
        jitter = _given(self.jitter, _JITTER)
        delay = _grown(
            _given(self.initial_delay, _INITIAL), _given(self.backoff_factor, _FACTOR), attempt
        )
        # Cut before the jitter: otherwise many nodes would retry at the same moment, the maximum.
        delay = min(delay, longest / (1 + jitter))
        if jitter:
            delay += random.uniform(-jitter * delay, jitter * delay)
        return min(max(delay, 0.0), longest)


def error_names(error: BaseException) -> list[str]:
    """Return the names by which `NodeRetryConfig.exceptions` can select an exception."""
    return [kind.__name__ for kind in type(error).__mro__ if kind is not object]


def retry_of(
    retry: dict[str, Any] | None, error: DurableAdkError, attempt: int
) -> NodeRetryConfig | None:
    """Return the configuration by which a node is tried again after an error, or None.

    Args:
        retry: The configuration as recorded, if the node has one.
        error: The error.
        attempt: The number of the attempt that failed: 1, 2, ...
    """
    if retry is None:
        return None
    config = NodeRetryConfig.model_validate(retry)
    user = error.user.classes if error.user is not None else []
    theirs = [name.rpartition(":")[2].rpartition(".")[2] for name in user]
    names = [error.error_type, *theirs, *error_names(error)]
    return config if config.allows(names, attempt) else None


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _grown(initial: float, factor: float, attempt: int) -> float:
    if not initial:
        return 0.0
    try:
        return initial * factor ** (attempt - 1)
    except OverflowError:
        return math.inf


def _listed(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _name(item: Any) -> str:
    if isinstance(item, str):
        return item
    if inspect.isclass(item) and issubclass(item, BaseException):
        return item.__name__
    kind = type(cast("object", item)).__name__
    raise WorkflowConfigurationError(
        "exceptions must contain exception class names (str) or exception classes, got "
        f"{kind}: {item!r}"
    )
