"""The outcomes that earlier attempts of a step have reported."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Self
from zlib import crc32

from pydantic import BaseModel, ConfigDict, ValidationError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

MARK = "durable-adk-reports"
"""Payload metadata that exempts these details from codec and storage. They are numbers and a
worker's name. A missing key or an unavailable store must neither end a step that reports them nor
cancel one that sends heartbeats."""

_IDENTITY = re.compile(r"[\w.:@/+-]{1,128}", re.ASCII)
"""Identities that the details may carry. Temporal's histories have them in plain text anyway."""
_PLAIN = re.compile(rb'\{("[a-z_]{1,20}":[\d\[\],]+)*("worker":"[\w.:@/+-]{1,128}")?\}')

Stretches = tuple[tuple[int, int], ...]
"""Ascending numbers as (first, last) of each consecutive range, so that hours of an outage take two
numbers."""


class AttemptHistory(BaseModel):
    """Which of all attempts ended with an error.

    Temporal counts attempts but does not say how they ended. So each attempt passes on, in its
    heartbeat details, what the earlier ones reported. An attempt that reported nothing was lost:
    with its worker, or on the way to one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    reported: Stretches = ()
    """Attempts that ended with an error of any kind."""
    excused: Stretches = ()
    """Those among them that are no evidence against the step: a requirement was unavailable."""
    unregistered: int = 0
    """How many attempts ended because the worker did not know the agent."""
    toolset_failures: int = 0
    """How many attempts could not reach the toolset for the tool."""
    exits: int = 0
    """How many attempts in a row, lost ones aside, ended because their workers shut down."""
    build: int = 0
    """Number of those workers' build."""
    number: int = 0
    """The attempt that sent this; 0 if unknown."""
    worker: str = ""
    """Identity of its worker."""

    @classmethod
    def of(cls, details: Sequence[Any]) -> Self:
        """Read the history from the details of the last heartbeat; empty if they cannot be read."""
        try:
            return cls.model_validate(details[0]) if details else cls()
        except ValidationError:
            return cls()

    def send(self) -> None:
        """Send the history in a heartbeat of the current attempt, with its number and worker."""
        signed = self.signed(activity.info().attempt, worker_identity() or "")
        activity.heartbeat(*signed.details())

    def signed(self, number: int, worker: str) -> "AttemptHistory":
        """Return the history as sent by an attempt; unchanged if it cannot carry the identity."""
        if not _IDENTITY.fullmatch(worker):
            return self
        return self.model_copy(update={"number": number, "worker": worker})

    def worker_of(self, number: int) -> str | None:
        """Return the identity of an attempt's worker, if that attempt sent this history."""
        known = number == self.number and _IDENTITY.fullmatch(self.worker)
        return self.worker if known else None

    def details(self) -> list[RawValue]:
        """Return the history as heartbeat details."""
        if self == NO_ATTEMPTS:
            return []
        metadata = {"encoding": b"json/plain", MARK: b"1"}
        data = self.model_dump_json(exclude_defaults=True).encode()
        return [RawValue(Payload(metadata=metadata, data=data))]

    def lost(self, number: int) -> list[int]:
        """Return the numbers of the attempts before `number` that have reported nothing."""
        return list(_outside(self.reported, number))

    def counted(self, number: int) -> int:
        """Return an attempt's number, not counting excused attempts."""
        return number - sum(last - first + 1 for first, last in self.excused)

    def unexcused(self, number: int) -> Iterator[int]:
        """Iterate over the numbers of the earlier attempts that are not excused."""
        return _outside(self.excused, number)

    def after(
        self,
        number: int,
        *,
        excused: bool = False,
        unregistered: bool = False,
        toolset_failures: bool = False,
    ) -> "AttemptHistory":
        """Return the history extended by attempt `number`, which ends with an error."""
        return AttemptHistory(
            reported=_with(self.reported, number),
            excused=_with(self.excused, number) if excused else self.excused,
            unregistered=self.unregistered + unregistered,
            toolset_failures=self.toolset_failures + toolset_failures,
        )

    def leaving(self, number: int, build: str) -> "AttemptHistory":
        """Return the history extended by attempt `number`, whose worker (of `build`) shuts down."""
        which = crc32(build.encode())
        exits = self.exits + 1 if which == self.build else 1
        return self.after(number, excused=True).model_copy(update={"exits": exits, "build": which})


def worker_identity() -> str | None:
    """Return the identity of this worker, as in Temporal; None in process."""
    try:
        return activity.client().identity
    except RuntimeError:
        return None


def is_attempt_history(payload: Payload) -> bool:
    """Return whether a payload is marked as attempt history and holds nothing else (forgeable)."""
    return MARK in payload.metadata and _PLAIN.fullmatch(payload.data) is not None


NO_ATTEMPTS = AttemptHistory()
"""The history of a first attempt."""


def _with(stretches: Stretches, number: int) -> Stretches:
    """Add a number that is greater than all present ones."""
    *before, (first, last) = stretches or ((number, number - 1),)
    if last == number - 1:
        return (*before, (first, number))
    return (*stretches, (number, number))


def _outside(stretches: Stretches, end: int) -> Iterator[int]:
    """Iterate over the numbers from 1 up to, but not including, `end` that are in no range."""
    begin = 1
    for first, last in stretches:
        yield from range(begin, first)
        begin = last + 1
    yield from range(begin, end)
