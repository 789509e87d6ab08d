"""What one of the processes of a command simulates."""

import argparse
import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simulation.catalogue import SCENARIOS
from simulation.explore import Explorer, Share, Verdict, little_garbage


class Totals(NamedTuple):
    """What a process has run."""

    schedules: int
    faults: int
    bad: int
    used: float
    """Seconds of processor time."""


def run(options: argparse.Namespace, share: Share) -> Totals:
    """Run a share of what the options ask for, and print what is wrong in it."""
    logging.disable(logging.WARNING)  # of the faults that were asked for
    logging.getLogger("temporalio.worker").setLevel(logging.CRITICAL)  # failed tasks are findings
    chosen = (s for s in SCENARIOS if options.scenario in (None, s.name))
    explorers = [Explorer(scenario) for scenario in chosen]
    return _report(_verdicts(explorers, options, share))


def _verdicts(
    explorers: list[Explorer], options: argparse.Namespace, share: Share
) -> Iterator[tuple[Explorer, Verdict]]:
    if options.faults or options.seed is not None:  # one schedule of each scenario
        explorers = explorers[share.index :: share.of]
    if options.faults:
        listed = (part.partition(":") for part in options.faults.split(","))
        faults = {int(point): fault for point, _, fault in listed}
        return ((e, e.listed(faults)) for e in explorers)
    if options.seed is not None:
        return ((e, e.seeded(options.seed)) for e in explorers)
    if options.singles:
        return ((e, verdict) for e in explorers for verdict in e.singles(share))
    if options.pairs is not None:
        kinds = options.pairs.split(",") if options.pairs else ()
        return ((e, verdict) for e in explorers for verdict in e.pairs(kinds, share))
    return _random(explorers, options, share)


def _random(
    explorers: list[Explorer], options: argparse.Namespace, share: Share
) -> Iterator[tuple[Explorer, Verdict]]:
    end = time.monotonic() + options.seconds
    for seed in itertools.count(options.first + share.index, share.of):
        for explorer in explorers:
            if time.monotonic() > end:
                return
            yield explorer, explorer.seeded(seed)


def _report(verdicts: Iterable[tuple[Explorer, Verdict]]) -> Totals:
    """Print what is wrong; how much was run."""
    used = time.process_time()
    schedules = faults = bad = 0
    with little_garbage() as tick:
        for explorer, verdict in verdicts:
            schedules += 1
            faults += len(verdict.done)
            if verdict.problems:
                bad += 1
                print(f"{explorer.scenario.name}: {verdict}", flush=True)
            tick()
    return Totals(schedules, faults, bad, time.process_time() - used)
