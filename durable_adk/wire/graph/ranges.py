"""Sets of numbers as ranges, so that a thousand items take few bytes."""

from collections.abc import Iterable, Iterator

Ranges = list[tuple[int, int]]
"""Numbers in order, as (first, last) of each consecutive range: a thousand of them may take two."""


def numbers_in(ranges: Ranges) -> Iterator[int]:
    """Iterate over the numbers, in order."""
    return (number for first, last in ranges for number in range(first, last + 1))


def count_in(ranges: Ranges) -> int:
    """Return how many numbers there are."""
    return sum(last - first + 1 for first, last in ranges)


def with_numbers(ranges: Ranges, numbers: Iterable[int]) -> Ranges:
    """Return ranges that have these numbers, too."""
    found: Ranges = []
    for first, last in sorted([*ranges, *((number, number) for number in numbers)]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def taken_from(ranges: Ranges, number: int) -> tuple[Ranges, Ranges]:
    """Split off the lowest numbers.

    Args:
        ranges: The ranges.
        number: How many to split off, if there are as many.

    Returns:
        Those numbers, and the rest.
    """
    taken: Ranges = []
    rest: Ranges = []
    for first, last in ranges:
        end = min(last, first + number - 1)
        if end >= first:
            taken.append((first, end))
            number -= end - first + 1
        if end < last:
            rest.append((max(first, end + 1), last))
    return taken, rest
