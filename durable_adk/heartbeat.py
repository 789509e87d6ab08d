"""What the earlier attempts of a step have reported of themselves."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

MARK = "durable-adk-reports"
"""Metadata of the payload, for codec and storage: it is numbers only and stays as it is. A key or a
store that is away must neither end a step that reports so, nor cancel one that beats."""

_NUMBERS = re.compile(rb'\{("[a-z_]{1,20}":[\d\[\],]+)*\}')

Stretches = tuple[tuple[int, int], ...]
"""Numbers, ascending, as the first and the last of each stretch of them: those of hours of an
outage are two numbers."""


class AttemptHistory(BaseModel):
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
    away: int = 0
    """How many found a toolset that could not be asked for the tool."""

    @classmethod
    def of(cls, details: Sequence[Any]) -> Self:
        """Those in the details of the last heartbeat; none if they cannot be read."""
        try:
            return cls.model_validate(details[0]) if details else cls()
        except ValidationError:
            return cls()

    def details(self) -> list[RawValue]:
        """They as details of a heartbeat."""
        if self == NO_ATTEMPTS:
            return []
        metadata = {"encoding": b"json/plain", MARK: b"1"}
        data = self.model_dump_json(exclude_defaults=True).encode()
        return [RawValue(Payload(metadata=metadata, data=data))]

    def lost(self, number: int) -> list[int]:
        """The numbers of those before attempt `number` that have told nothing."""
        return list(_outside(self.told, number))

    def counted(self, number: int) -> int:
        """The number of an attempt among those that are not excused."""
        return number - sum(last - first + 1 for first, last in self.excused)

    def in_vain(self, number: int) -> Iterator[int]:
        """The numbers of the attempts before it that are not excused."""
        return _outside(self.excused, number)

    def after(
        self, number: int, *, excused: bool = False, elsewhere: bool = False, away: bool = False
    ) -> "AttemptHistory":
        """These and that of attempt `number`, which ends with an error."""
        return AttemptHistory(
            told=_with(self.told, number),
            excused=_with(self.excused, number) if excused else self.excused,
            elsewhere=self.elsewhere + elsewhere,
            away=self.away + away,
        )


def is_attempt_history(payload: Payload) -> bool:
    """Whether a payload says so, and says nothing but numbers: somebody may have forged it."""
    return MARK in payload.metadata and _NUMBERS.fullmatch(payload.data) is not None


NO_ATTEMPTS = AttemptHistory()
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
