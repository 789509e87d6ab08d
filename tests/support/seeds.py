"""What the tests draw from: fixed numbers in the gate, and one number in `make explore`.

What a drawn number has found is written down here, with the fault and the commit that mended it,
and the gate runs it from then on. A found example of Hypothesis stands as `@example` above its
test, a found schedule of single faults as a test of its own.
"""

import os
from random import Random

VARIABLE = "DURABLE_ADK_TESTS_SEED"
"""Has properties, and what else a test draws, drawn from this number."""

SEED = int(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
"""None in the gate: there properties are derandomized, and the others draw from 0."""

SAMPLE = "13"
"""The share of sampled tests that the gate takes: of all, the one with the most different tests."""

TAKEN: frozenset[str] = frozenset()
"""Sampled tests that failed under another share, by node id: the gate takes them as well."""

CELLS: frozenset[str] = frozenset()
"""The same for cells of the failpoint matrix, such as ``commit.after-kill-sqlite``."""

KILLS: dict[str, int] = {}
"""By scenario, the seed whose kill was not survived (tests/scenarios)."""

SCHEDULES: dict[str, tuple[int, ...]] = {
    # Two ends of a paused invocation (8a7d9f3); a pause by an attempt that was alive (e31a6aa).
    "approval cancelled": (124509726, 801756281),
}
"""By scenario of the simulation, the seeds of random schedules that violated an invariant."""

CAMPAIGNS: dict[str, tuple[int, ...]] = {
    # Each left a history that did not replay: of 11276 and 875543 the store was not noted.
    "sqlite": (412583, 11276, 875543),
    "postgres": (307468, 11276, 875543),
}
"""By store. The gate (`make chaos`) runs the first of each, `make explore` the others too."""


def dice(name: str) -> Random:
    """Dice of a test's own: the same at every run, unless `VARIABLE` says otherwise."""
    return Random(f"{SEED or 0}/{name}")
