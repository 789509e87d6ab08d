"""Effects: steps that know the type of their result, and the attempts to perform them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import WrapValidator

from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory
from durable_adk.errors import Detail

R = TypeVar("R")


def _kept(value: Any, validated: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    return value if isinstance(value, Detail) else validated(value)


ErrorDetail: TypeAlias = Annotated[dict[str, Any], WrapValidator(_kept)]
"""`errors.as_detail` of an error; not copied, because in process it contains the error itself."""


class Effect(Generic[R]):
    """A step whose result is an `R`, so that `Runtime.perform` is typed by its argument.

    For the type checker only: it adds no field, so payloads in histories do not change.
    """

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of an effect, as seen by the effect's function."""

    number: int = 1
    """The attempt's number: 1, 2, ..."""
    history: AttemptHistory = NO_ATTEMPTS
    """The earlier attempts."""

    @property
    def counted(self) -> int:
        """Attempt number, excused attempts not counted."""
        return self.history.counted(self.number)

    async def begins(self) -> None:
        """Mark the start of user or model code; awaited after all reads, right before that code.

        A worker crash is attributed to that code only from here on. In process nothing is counted:
        no attempt survives a crash.
        """
