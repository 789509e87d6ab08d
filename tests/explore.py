"""Draws at random what the gate has fixed: ``python -m tests.explore --seconds 600``.

``make explore`` calls it. It goes round over random schedules of the simulation, campaigns, slices
of the sampled tests and properties, each with a seed that its own seed draws, and prints the
command that repeats a step before it begins. It exits with 1 if a step has failed. What it finds
gets its place in tests/support/seeds.py.
"""

import argparse
import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import sampling, seeds
from tests.support.required import ROOT

SEEDS = 10**9
"""Of so many a step draws one."""
SAMPLED = {
    "chaos": 3,
    "e2e": 2,
    "integration": 4,
    "interop": 1,
    "mutants": 1,
    "samples": 1,
    "scenarios": 1,
    "server": 3,
    "simulation": 1,
    "unit": 6,
}
"""Folders with sampled tests, and how many of their files a step takes."""
PROPERTIES = {"adk": 1, "campaign": 1, "interop": 1, "server": 1, "unit": 6}
"""The same for properties."""
ELSEWHERE = ("tests/interop/objects/", "tests/samples/projects/")
"""Tests that others start, in environments of their own."""
AGAIN = 4
"""One in so many campaigns has a seed that once found something."""
NO_TESTS = 5
"""What pytest exits with when no test of a slice is taken."""
LAST_LINES = 60
"""So many lines of a step that has failed are shown; all are in its log."""
CLEANING = 60.0
"""Seconds in which a step that is cut may stop what it has started."""


@dataclass(frozen=True)
class Step:
    """What is run, and what it draws from."""

    kind: str
    seed: int
    arguments: tuple[str, ...]
    """Those of Python."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    fine: tuple[int, ...] = (0,)
    """What it exits with if it has found nothing."""

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        python = os.path.relpath(sys.executable, ROOT)
        return shlex.join([*variables, python, *self.arguments])


Run = Callable[[Step, float], int | None]
"""Runs a step, for so many seconds at most; what it exits with, or None if it was cut."""


def steps(seed: int) -> Iterator[Step]:
    """The steps that a seed draws, without end: the same ones in the same tree of files."""
    dice = random.Random(seed)
    sampled = _slices(dice, SAMPLED, ("sampled(", "thorough", "make_runner", "replayed"))
    properties = _slices(dice, PROPERTIES, ("hypothesis",))
    while True:
        makers: list[Callable[[int], Step]] = [
            _simulation,
            _campaign,
            lambda number: _sampled(number, next(sampled)),
            lambda number: _sampled(number, next(sampled)),
            lambda number: _properties(number, next(properties)),
        ]
        dice.shuffle(makers)
        for make in makers:
            yield make(dice.randrange(SEEDS))


def _simulation(seed: int) -> Step:
    options = ("--seconds", "30", "--jobs", "2")
    return Step("simulation", seed, ("-m", "simulation", "--first", str(seed), *options))


def _campaign(seed: int) -> Step:
    dice = random.Random(seed)
    store = dice.choice(list(seeds.CAMPAIGNS))
    if dice.randrange(AGAIN) == 0:
        seed = dice.choice(seeds.CAMPAIGNS[store])
    options = ("--seed", str(seed), "--store", store, "--seconds", "60")
    return Step("campaign", seed, ("-W", "ignore:XDG_RUNTIME_DIR", "-m", "campaign", *options))


def _sampled(seed: int, files: list[str]) -> Step:
    # All shares of all tests come up: 10**9 is much more than what they have in common.
    variables = {sampling.VARIABLE: str(seed), seeds.VARIABLE: str(seed)}
    return _tests("sample", seed, ("-m", "sampled and not property", *files), variables)


def _properties(seed: int, files: list[str]) -> Step:
    variables = {sampling.VARIABLE: "all", seeds.VARIABLE: str(seed)}
    return _tests("properties", seed, ("-m", "property", *files), variables)


def _tests(kind: str, seed: int, options: tuple[str, ...], variables: Mapping[str, str]) -> Step:
    pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", "4")
    pytest += ("--dist", "loadfile", "--no-loadscope-reorder")
    return Step(kind, seed, (*pytest, *options), variables, fine=(0, NO_TESTS))


def _slices(
    dice: random.Random, folders: Mapping[str, int], words: tuple[str, ...]
) -> Iterator[list[str]]:
    """Some files of one folder after the other; in a folder all come up before one comes again.

    Args:
        dice: Draws the order.
        folders: How many files of each are taken together.
        words: A file has one of them, or it is of no use.
    """
    waiting: dict[str, list[str]] = {folder: [] for folder in folders}
    while True:
        for folder in dice.sample(list(folders), len(folders)):
            if not waiting[folder]:
                found = _files(folder, words)
                waiting[folder] = dice.sample(found, len(found))
            count = folders[folder]
            taken, waiting[folder] = waiting[folder][:count], waiting[folder][count:]
            yield sorted(taken)


def _files(folder: str, words: Iterable[str]) -> list[str]:
    """The tests of a folder that have one of some words in them or their conftest.py."""
    found = list[str]()
    for path in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
        conftest = path.with_name("conftest.py")
        text = path.read_text() + (conftest.read_text() if conftest.exists() else "")
        name = str(path.relative_to(ROOT))
        if not name.startswith(ELSEWHERE) and any(word in text for word in words):
            found.append(name)
    return found


def explore(
    drawn: Iterable[Step], run: Run, *, seconds: float, clock: Callable[[], float] = time.monotonic
) -> list[Step]:
    """Run one step after the other until the time is over, and say so; returns those that failed.

    A step that is cut at the end has found nothing.
    """
    ends = clock() + seconds
    failed: list[Step] = []
    begun = 0
    for begun, step in enumerate(drawn, 1):
        print(f"\n[{begun}] {step.kind}, seed {step.seed}\n    {step.command}", flush=True)
        began = clock()
        status = run(step, ends - began)
        outcome = "cut" if status is None else "nothing found"
        if status is not None and status not in step.fine:
            failed.append(step)
            outcome = f"FOUND: it exits with {status}. To repeat it:\n    {step.command}"
        print(f"    after {clock() - began:.0f} s: {outcome}", flush=True)
        if status is None or clock() >= ends:
            break
    print(f"\n{begun} steps; {len(failed)} found something")
    print(*(f"    {step.command}" for step in failed), sep="\n", flush=True)
    return failed


class Processes:
    """Runs each step as a process, whose output is kept.

    Args:
        folder: Where to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self, step: Step, seconds: float) -> int | None:
        """See `Run`."""
        self._count += 1
        log = self._folder / f"{self._count:03}-{step.kind}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *step.arguments],
                cwd=ROOT,
                env=os.environ | step.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(max(0.0, seconds))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                _stop(process)
                return None
        if status not in step.fine:
            lines = log.read_text(errors="backslashreplace").splitlines()[-LAST_LINES:]
            print(*lines, f"    all of it is in {log}", sep="\n", flush=True)
        return status


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a step, so that it stops its servers; kill what is left of it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(CLEANING)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> int:
    """Explore for as long as the command line says; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="the last step is cut then")
    parser.add_argument("--seed", type=int, help="draws the steps; at random if missing")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(SEEDS) if options.seed is None else options.seed
    again = f"python -m tests.explore --seconds {options.seconds:g} --seed {seed}"
    print(f"seed {seed}: {again}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix=f"durable-adk-explore-{seed}-"))
    return int(bool(explore(steps(seed), Processes(folder), seconds=options.seconds)))


if __name__ == "__main__":
    sys.exit(main())
