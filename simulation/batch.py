"""What one of the processes of a command simulates."""

import argparse
import gc
import itertools
import logging
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from simulation.catalogue import SCENARIOS
from simulation.explore import Explorer, Share, Verdict, little_garbage

TOLD_EVERY = 600.0
"""Seconds between two lines of how far a process is."""


@dataclass
class Totals:
    """What a process has run."""

    schedules: int = 0
    orders: set[tuple[str, bytes]] = field(default_factory=set[tuple[str, bytes]])
    """The different ones: their scenario, and `Verdict.order`."""
    faults: int = 0
    bad: int = 0
    used: float = 0.0
    """Seconds of processor time."""

    def __str__(self) -> str:
        """All in a line."""
        return (
            f"{self.schedules} schedules, {len(self.orders)} of them different, with "
            f"{self.faults} faults; {self.bad} violated an invariant"
        )

    def __add__(self, other: "Totals") -> "Totals":
        """Both together."""
        return Totals(
            self.schedules + other.schedules,
            self.orders | other.orders,
            self.faults + other.faults,
            self.bad + other.bad,
            self.used + other.used,
        )


def run(options: argparse.Namespace, share: Share) -> Totals:
    """Run a share of what the options ask for, and print what is wrong in it."""
    logging.disable(logging.WARNING)  # of the faults that were asked for
    logging.getLogger("temporalio.worker").setLevel(logging.CRITICAL)  # failed tasks are findings
    chosen = (s for s in SCENARIOS if options.scenario in (None, s.name))
    explorers = [Explorer(scenario) for scenario in chosen]
    gc.freeze()  # whatever is there now stays; to look at it again took a twentieth of the time
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
    began, told = time.process_time(), time.monotonic()
    totals, parent = Totals(), multiprocessing.parent_process()
    with little_garbage() as tick:
        for explorer, verdict in verdicts:
            if parent is not None and not parent.is_alive():
                os._exit(1)  # else the pool waits, and the error is not shown
            totals.schedules += 1
            totals.orders.add((explorer.scenario.name, verdict.order))
            totals.faults += verdict.faults
            if verdict.problems:
                totals.bad += 1
                print(f"{explorer.scenario.name}: {verdict}", flush=True)
            if time.monotonic() > told + TOLD_EVERY:
                told = time.monotonic()
                print(f"so far, of {multiprocessing.current_process().name}: {totals}", flush=True)
            tick()
    totals.used = time.process_time() - began
    return totals
