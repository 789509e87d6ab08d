"""What the earlier attempts of a step have reported of themselves."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

Stretches = tuple[tuple[int, int], ...]
"""Numbers, ascending, as the first and the last of each stretch of them: those of hours of an
outage are two numbers."""


class Reports(BaseModel):
    """Attempts that ended with an error, among all that were made.

    The engine counts attempts; it does not say how they ended. So each carries on, in the details
    of its heartbeats, what those before it have told. An attempt that has told nothing was lost,
    with its worker or on the way.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    told: Stretches = ()
    """Those that have ended with an error of any kind."""
    excused: Stretches = ()
    """Of these, those that say nothing of the step, because what it needs was not there."""
    elsewhere: int = 0
    """How many were given back because the worker does not know the agent."""

    @classmethod
    def of(cls, details: Sequence[Any]) -> Self:
        """Those in the details of the last heartbeat; none if it had no details."""
        return cls.model_validate(details[0]) if details else cls()

    def lost(self, number: int) -> list[int]:
        """The numbers of those before attempt `number` that have told nothing."""
        return list(_outside(self.told, number))

    def counted(self, number: int) -> int:
        """The number of an attempt among those that are not excused."""
        return number - sum(last - first + 1 for first, last in self.excused)

    def in_vain(self, number: int) -> Iterator[int]:
        """The numbers of the attempts before it that are not excused."""
        return _outside(self.excused, number)

    def after(self, number: int, *, excused: bool = False, elsewhere: bool = False) -> "Reports":
        """These and that of attempt `number`, which ends with an error."""
        return Reports(
            told=_with(self.told, number),
            excused=_with(self.excused, number) if excused else self.excused,
            elsewhere=self.elsewhere + elsewhere,
        )


NONE = Reports()
"""Of a first attempt."""


def _with(stretches: Stretches, number: int) -> Stretches:
    """A number behind the last one is added."""
    *before, (first, last) = stretches or ((number, number - 1),)
    if last == number - 1:
        return (*before, (first, number))
    return (*stretches, (number, number))


def _outside(stretches: Stretches, end: int) -> Iterator[int]:
    """The numbers from 1 below `end` that are in no stretch."""
    begin = 1
    for first, last in stretches:
        yield from range(begin, first)
        begin = last + 1
    yield from range(begin, end)
