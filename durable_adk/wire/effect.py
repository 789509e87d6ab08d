"""What an effect is: a step that knows the type of its result, and the attempts made of it."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from durable_adk.heartbeat import NO_ATTEMPTS, AttemptHistory

R = TypeVar("R")


class Effect(Generic[R]):
    """A step that asks for an `R`, so that `Runtime.perform` is typed by its argument.

    For the type checker only: it adds no field, so payloads in histories are as they were.
    """

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class EffectAttempt:
    """One attempt of an effect, as its function sees it."""

    number: int = 1
    """1, 2, ..."""
    history: AttemptHistory = NO_ATTEMPTS
    """Of those before it."""

    async def begins(self) -> None:
        """Awaited when all is read, right before the first code of a user or model.

        A worker's death is put down to that code only from here on. In process there is nothing
        to count: no attempt outlives the loss.
        """
