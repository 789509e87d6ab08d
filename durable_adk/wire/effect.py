"""Effects: steps that know the type of their result, and the attempts to perform them."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory

R = TypeVar("R")


class Effect(Generic[R]):
    """A step whose result is an `R`, so that `Runtime.perform` is typed by its argument.

    For the type checker only: it adds no field, so payloads in histories do not change.
    """

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class EffectAttempt:
    """One attempt of an effect, as seen by the effect's function."""

    number: int = 1
    """The attempt's number: 1, 2, ..."""
    history: AttemptHistory = NO_ATTEMPTS
    """The earlier attempts."""

    async def begins(self) -> None:
        """Mark the start of user or model code; awaited after all reads, right before that code.

        A worker crash is attributed to that code only from here on. In process nothing is counted:
        no attempt survives a crash.
        """
