"""Schedules of a scenario: all with one fault, all with two, or any."""

import gc
import hashlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from simulation.audit import audit
from simulation.scenario import Scenario
from simulation.schedule import Listed, Point, Seeded
from simulation.simulation import Result, Simulation

Audit = Callable[[Result, Result], list[str]]
GARBAGE = 200
"""Schedules between two collections of garbage, which would take a sixth of the time."""


class Share(NamedTuple):
    """What one of several processes runs."""

    index: int = 0
    of: int = 1


ALL = Share()


class Verdict(NamedTuple):
    """What a schedule came to."""

    schedule: str
    """How to repeat it: a seed, or faults by the number of their points."""
    done: list[str]
    """What went wrong in it, and what clients did, in order."""
    faults: int
    problems: list[str]
    points: Sequence[Point]

    @property
    def order(self) -> bytes:
        """What happened and what went wrong, in short; that of equal schedules is equal."""
        labels = (point.label for point in self.points)
        return hashlib.blake2b("\n".join((*labels, *self.done)).encode(), digest_size=8).digest()

    def __str__(self) -> str:
        """The schedule, what happened in it, and what is wrong."""
        lines = [self.schedule, *(f"  {done}" for done in self.done)]
        return "\n".join([*lines, *(f"  VIOLATED {problem}" for problem in self.problems)])


class Explorer:
    """Runs schedules of one scenario and audits each.

    Raises:
        AssertionError: The scenario goes wrong without any fault.
    """

    def __init__(self, scenario: Scenario, *, audit: Audit = audit) -> None:
        self.scenario = scenario
        self._audit = audit
        self._replayed: set[bytes] = set()
        plan = Listed()
        self._control = Simulation(scenario, plan).run()
        self._points = plan.points
        problems = audit(self._control, self._control)
        if problems:
            raise AssertionError(f"{scenario.name}, undisturbed: {problems}")

    def seeded(self, seed: int) -> Verdict:
        """The schedule of a seed."""
        return self._verdict(str(seed), Seeded(f"{self.scenario.name}/{seed}"))

    def listed(self, faults: Mapping[int, str]) -> Verdict:
        """The usual order with some faults, by the numbers of their points."""
        text = ",".join(f"{point}:{fault}" for point, fault in faults.items())
        return self._verdict(text, Listed(faults))

    def singles(self, share: Share = ALL) -> Iterator[Verdict]:
        """Every fault at every point."""
        return (self.listed(faults) for faults in self._first(share))

    def pairs(self, kinds: Collection[str] = (), share: Share = ALL) -> Iterator[Verdict]:
        """Every fault at every point, and then every fault at every later point of that run.

        Args:
            kinds: Of faults; none: all.
            share: Of the first faults.
        """
        for faults in self._first(share, kinds):
            first = self.listed(faults)
            yield first
            yield from (self.listed(both) for both in _one_more(faults, first.points, kinds))

    def followed(self, first: str, second: str, *, start: str) -> Iterator[Verdict]:
        """One kind of fault at all points since one of them, and another after it.

        Args:
            first: The one, as in `simulation.faults`.
            second: The other.
            start: Label of the point from which on the first may be.

        Raises:
            ValueError: There is no such point.
        """
        labels = [point.label for point in self._points]
        since = labels.index(start)
        numbers = [n for n, point in enumerate(self._points) if first in point.faults]
        for number in filter(lambda number: number >= since, numbers):
            verdict = self.listed({number: first})
            yield verdict
            for both in _one_more({number: first}, verdict.points):
                if both[max(both)] == second:
                    yield self.listed(both)

    def _first(self, share: Share, kinds: Collection[str] = ()) -> Iterator[dict[int, str]]:
        return islice(_one_more({}, self._points, kinds), share.index, None, share.of)

    def _verdict(self, schedule: str, plan: Listed | Seeded) -> Verdict:
        result = Simulation(self.scenario, plan, self._replayed).run()
        problems = self._audit(result, self._control)
        return Verdict(schedule, result.done, result.faults, problems, plan.points)


def _one_more(
    faults: Mapping[int, str], points: Sequence[Point], kinds: Collection[str] = ()
) -> Iterator[dict[int, str]]:
    first = max(faults, default=-1) + 1
    for number, point in enumerate(points[first:], first):
        for fault in (fault for fault in point.faults if not kinds or fault in kinds):
            yield {**faults, number: fault}


@contextmanager
def little_garbage() -> Generator[Callable[[], None]]:
    """Collect garbage only now and then; to be called after every schedule."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count % GARBAGE == 0:
            gc.collect()

    gc.disable()
    try:
        yield tick
    finally:
        gc.enable()
        gc.collect()
