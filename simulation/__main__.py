"""Simulates schedules: ``python -m simulation --seconds 60``, ``--seed 7``, ``--pairs``."""

import argparse
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from simulation.batch import Totals, run
from simulation.catalogue import SCENARIOS
from simulation.explore import ALL, Share

SEEDS = 10**9
"""Of so many the first one is drawn."""


def main() -> int:
    """Run what was asked for; 1 if an invariant was violated."""
    options = _options()
    names = [scenario.name for scenario in SCENARIOS]
    if options.scenario not in (None, *names):
        print(f"No scenario {options.scenario!r}; there are: {', '.join(map(repr, names))}.")
        return 2
    if options.first is None:
        # Others than those of every run before; here, so that the processes share one row of them.
        options.first = random.randrange(SEEDS)
    if _draws(options):
        print(f"random schedules from seed {options.first} on", flush=True)
    began = time.monotonic()
    shares = [Share(index, options.jobs) for index in range(options.jobs)]
    if len(shares) == 1:
        done = [run(options, ALL)]
    else:
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            done = list(pool.map(partial(run, options), shares))
    totals = sum(done, Totals())
    rate = totals.schedules / totals.used if totals.used else 0
    print(
        f"{totals}; {time.monotonic() - began:.1f} s, {rate:.0f} schedules per second of "
        "processor time"
    )
    return int(totals.bad > 0)


def _draws(options: argparse.Namespace) -> bool:
    """Whether seeds are counted up, and not schedules listed."""
    listed = options.singles or options.pairs is not None
    return not (listed or options.faults or options.seed is not None)


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
    parser.add_argument("--first", type=int, help="the first of their seeds; else any")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    return parser.parse_args()


sys.exit(main())
