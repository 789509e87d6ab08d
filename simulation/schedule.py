"""Decides what happens next and what goes wrong: by default, by a list of faults, or by a seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from simulation.server import Item

IN_ORDER = 0.25
"""How many of the seeded schedules keep the usual order."""
LEAPS = 0.03
"""How often time passes in the others although something could happen at once."""


@dataclass(frozen=True, slots=True)
class Point:
    """Something that happened, and what could have gone wrong instead."""

    label: str
    faults: tuple[str, ...]


class Plan(Protocol):
    """Takes the decisions of one schedule."""

    wild: bool
    """Whether everything may happen at any time, or only in its usual order."""

    def choose(self, items: Sequence[Item]) -> int:
        """Which of the items happens next."""
        ...

    def fault(self, point: Point) -> str | None:
        """What goes wrong at this point; None: nothing."""
        ...

    def worker(self, attempts: int) -> int:
        """Which worker runs an activity's next attempt."""
        ...

    def leap(self) -> bool:
        """Whether time passes although something could happen at once."""
        ...


@dataclass
class Listed:
    """The usual order, with these faults: by the number of the point, from 0."""

    faults: Mapping[int, str] = field(default_factory=dict[int, str])
    points: list[Point] = field(default_factory=list[Point])
    wild: bool = False

    def choose(self, items: Sequence[Item]) -> int:
        """See `Plan`."""
        del items
        return 0

    def fault(self, point: Point) -> str | None:
        """See `Plan`."""
        self.points.append(point)
        fault = self.faults.get(len(self.points) - 1)
        return fault if fault in point.faults else None

    def worker(self, attempts: int) -> int:
        """See `Plan`."""
        return attempts % 2

    def leap(self) -> bool:
        """See `Plan`."""
        return False


class Seeded:
    """Any order, any faults, up to some number: the same for the same seed."""

    wild = True

    def __init__(self, seed: str) -> None:
        self._dice = Random(seed)
        self._left = self._dice.choice((1, 2, 3, 5, 8))
        self._often = self._dice.choice((0.02, 0.05, 0.15))
        self._in_order = self._dice.random() < IN_ORDER
        self.points: list[Point] = []

    def choose(self, items: Sequence[Item]) -> int:
        """See `Plan`."""
        return 0 if self._in_order else self._dice.randrange(len(items))

    def fault(self, point: Point) -> str | None:
        """See `Plan`."""
        self.points.append(point)
        if not point.faults or not self._left or self._dice.random() > self._often:
            return None
        self._left -= 1
        return self._dice.choice(point.faults)

    def worker(self, attempts: int) -> int:
        """See `Plan`."""
        del attempts
        return self._dice.randrange(2)

    def leap(self) -> bool:
        """See `Plan`."""
        return not self._in_order and self._dice.random() < LEAPS
