"""A tool's contract for repeated runs (D11)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, cast

from pydantic import ConfigDict, Field, field_validator

from durable_adk.json_values import JsonModel
from durable_adk.settings import FiniteSeconds


class ToolContract(StrEnum):
    """How often one call of a tool may run if the outcome of an earlier run is unknown."""

    AT_LEAST_ONCE = "at_least_once"
    """The default: run again after a lost worker, with the same `ToolContext.idempotency_key`."""
    PURE = "pure"
    """The tool has no side effects, so it is run again whenever that helps."""
    IDEMPOTENT = "idempotent"
    """Runs with the same `ToolContext.idempotency_key` take effect once."""
    AT_MOST_ONCE = "at_most_once"
    """Never run again once a run may have started; the model is informed of an unknown outcome."""


REPEATABLE = (ToolContract.PURE, ToolContract.IDEMPOTENT)
"""Contracts under which a tool that raised may be run again."""


class RetryConfig(JsonModel):
    """Which errors of a tool are retried, and when (ADK's names)."""

    model_config = ConfigDict(frozen=True)

    max_attempts: int = Field(default=5, ge=2)
    """Maximum number of runs, including those that were lost with their worker."""
    initial_delay: FiniteSeconds = Field(default=1.0, ge=0)
    """Seconds before the second run."""
    backoff_factor: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    """Factor by which each delay is longer than the previous one."""
    max_delay: FiniteSeconds = Field(default=60.0, ge=0)
    """Maximum delay in seconds."""
    exceptions: tuple[str, ...] | None = None
    """Exception classes or their names; subclasses match too. None: all exceptions."""

    @field_validator("exceptions", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Convert classes to names: the record of an invocation's opening is data."""
        if not isinstance(value, Iterable) or isinstance(value, str):
            return value
        items = cast("Iterable[Any]", value)
        return tuple(item.__name__ if isinstance(item, type) else item for item in items)

    def delay(self, attempt: int, error: BaseException) -> float | None:
        """Return the seconds until the run after `attempt` (1, 2, ...), or None for no retry."""
        names = {kind.__name__ for kind in type(error).__mro__}
        wanted = self.exceptions is None or not names.isdisjoint(self.exceptions)
        if not wanted or attempt >= self.max_attempts:
            return None
        # The exponent is bounded; otherwise a long retry would overflow before `min` applies.
        return min(self.initial_delay * self.backoff_factor ** min(attempt - 1, 64), self.max_delay)
