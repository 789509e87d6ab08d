"""What the earlier attempts of a step have reported of themselves."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Reports(BaseModel):
    """Attempts that ended with an error, among all that were made.

    The engine counts attempts; it does not say how they ended. So each carries on, in the details
    of its heartbeats, what those before it have told. An attempt that has told nothing was lost,
    with its worker or on the way.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    told: int = 0
    """How many have ended with an error of any kind."""
    excused: tuple[tuple[int, int], ...] = ()
    """Those that say nothing of the step, because what it needs was not there: first and last
    number of each stretch, so that hours of an outage are a few numbers."""
    elsewhere: int = 0
    """How many were given back because the worker does not know the agent."""

    @classmethod
    def of(cls, details: Sequence[Any]) -> Self:
        """Those in the details of the last heartbeat; none if it had no details."""
        return cls.model_validate(details[0]) if details else cls()

    def lost(self, number: int) -> int:
        """How many before attempt `number` have told nothing."""
        return number - 1 - self.told

    def counted(self, number: int) -> int:
        """The number of an attempt among those that are not excused."""
        return number - sum(last - first + 1 for first, last in self.excused)

    def in_vain(self, number: int) -> Iterator[int]:
        """The numbers of the attempts before it that are not excused."""
        begin = 1
        for first, last in self.excused:
            yield from range(begin, first)
            begin = last + 1
        yield from range(begin, number)

    def after(self, number: int, *, excused: bool = False, elsewhere: bool = False) -> "Reports":
        """These and that of attempt `number`, which ends with an error."""
        stretches = self.excused
        if excused:
            follows = bool(stretches) and stretches[-1][1] == number - 1
            first = stretches[-1][0] if follows else number
            stretches = (*(stretches[:-1] if follows else stretches), (first, number))
        return Reports(told=self.told + 1, excused=stretches, elsewhere=self.elsewhere + elsewhere)


NONE = Reports()
"""Of a first attempt."""
