"""What a tool promises about being run more than once (design D11, reliability D7)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, cast

from pydantic import ConfigDict, Field, field_validator

from durable_adk.json_model import JsonModel


class ToolContract(StrEnum):
    """How often one call of a tool may be run, by whoever lost sight of an earlier run."""

    AT_LEAST_ONCE = "at_least_once"
    """Run again after a lost worker, with the same `ToolContext.idempotency_key`: the default."""
    PURE = "pure"
    """It changes nothing outside, so it is run again whenever that helps."""
    IDEMPOTENT = "idempotent"
    """Runs with the same `ToolContext.idempotency_key` change things once."""
    AT_MOST_ONCE = "at_most_once"
    """Never run again once a run may have begun; the model is told if the outcome is unknown."""


REPEATABLE = (ToolContract.PURE, ToolContract.IDEMPOTENT)
"""The contracts under which a tool that raised may be run again."""


class RetryConfig(JsonModel):
    """Which errors that a tool raises are worth another run, and when (ADK's names)."""

    model_config = ConfigDict(frozen=True)

    max_attempts: int = Field(default=5, ge=2)
    """Runs in all; those that were lost with their worker count too."""
    initial_delay: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Seconds before the second run."""
    backoff_factor: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    """By how much each pause is longer than the one before."""
    max_delay: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """Seconds that no pause is longer than."""
    exceptions: tuple[str, ...] | None = None
    """Names of exception classes, or the classes; subclasses count too. None: all of them."""

    @field_validator("exceptions", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Classes by name: what is recorded when an invocation opens is data."""
        if not isinstance(value, Iterable) or isinstance(value, str):
            return value
        items = cast("Iterable[Any]", value)
        return tuple(item.__name__ if isinstance(item, type) else item for item in items)

    def delay(self, attempt: int, error: BaseException) -> float | None:
        """Seconds until the run that follows `attempt` (1, 2, ...); None: there is none."""
        names = {kind.__name__ for kind in type(error).__mro__}
        wanted = self.exceptions is None or not names.isdisjoint(self.exceptions)
        if not wanted or attempt >= self.max_attempts:
            return None
        # The exponent is bounded, or a long retry would overflow before `min` is asked.
        return min(self.initial_delay * self.backoff_factor ** min(attempt - 1, 64), self.max_delay)
