"""Simulates schedules: ``python -m simulation --seconds 60``, ``--seed 7``, ``--pairs``."""

import argparse
import itertools
import logging
import sys
import time
from collections.abc import Iterable, Iterator

from simulation.catalogue import SCENARIOS
from simulation.explore import Explorer, Verdict, little_garbage
from simulation.scenario import Scenario


def main() -> int:
    """Run what was asked for; 1 if an invariant was violated."""
    logging.disable(logging.WARNING)  # of the faults that were asked for
    logging.getLogger("temporalio.worker").setLevel(logging.CRITICAL)  # failed tasks are findings
    options = _options()
    chosen = [s for s in SCENARIOS if options.scenario in (None, s.name)]
    if not chosen:
        print(f"No scenario {options.scenario!r}; there are: {', '.join(map(_name, SCENARIOS))}.")
        return 2
    explorers = [Explorer(scenario) for scenario in chosen]
    if options.faults:
        listed = (part.partition(":") for part in options.faults.split(","))
        faults = {int(point): fault for point, _, fault in listed}
        return _report((e, e.listed(faults)) for e in explorers)
    if options.seed is not None:
        return _report((e, e.seeded(options.seed)) for e in explorers)
    if options.singles:
        return _report((e, verdict) for e in explorers for verdict in e.singles())
    if options.pairs is not None:
        kinds = options.pairs.split(",") if options.pairs else ()
        return _report((e, verdict) for e in explorers for verdict in e.pairs(kinds))
    print(f"seeds from {options.first} for {options.seconds} s")
    return _report(_random(explorers, options.first, options.seconds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--scenario", help="only this one")
    parser.add_argument("--seed", type=int, help="run the schedules of one seed")
    parser.add_argument("--faults", help="run the schedule of these faults, as they are reported")
    parser.add_argument("--singles", action="store_true", help="every fault at every point")
    parser.add_argument(
        "--pairs",
        nargs="?",
        const="",
        metavar="KINDS",
        help="every pair of faults, or of these kinds, as die,crash; takes long",
    )
    parser.add_argument("--seconds", type=float, default=10, help="run random schedules so long")
    parser.add_argument("--first", type=int, default=0, help="the first of their seeds")
    return parser.parse_args()


def _name(scenario: Scenario) -> str:
    return repr(scenario.name)


def _random(
    explorers: list[Explorer], first: int, seconds: float
) -> Iterator[tuple[Explorer, Verdict]]:
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        for explorer in explorers:
            if time.monotonic() > end:
                return
            yield explorer, explorer.seeded(seed)


def _report(verdicts: Iterable[tuple[Explorer, Verdict]]) -> int:
    """Print what is wrong, and how much was run; 1 if anything is wrong."""
    began, used = time.monotonic(), time.process_time()
    schedules = faults = bad = 0
    with little_garbage() as tick:
        for explorer, verdict in verdicts:
            schedules += 1
            faults += len(verdict.done)
            if verdict.problems:
                bad += 1
                print(f"{explorer.scenario.name}: {verdict}")
            tick()
    took, used = time.monotonic() - began, time.process_time() - used
    rate = schedules / used if used else 0
    print(
        f"{schedules} schedules with {faults} faults in {took:.1f} s, {rate:.0f} schedules per "
        f"second of processor time; {bad} violated an invariant"
    )
    return int(bad > 0)


sys.exit(main())
