"""Do a campaign: ``python -m campaign``, one run or, for hours, one after the other.

``make chaos`` and ``make chaos-long`` call it. It exits with 1 if a run is not passed.
"""

import argparse
import asyncio
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from campaign.auditor import audit, show
from campaign.links import STORES
from campaign.run import QUIET, Plan, run
from campaign.scale import Size
from campaign.schedule import GAP

ROUND = 300.0
"""Seconds of faults in each run of a long campaign."""
RUNS = Path(tempfile.gettempdir()) / "durable-adk-campaign"
BULKY = ("temporal", "postgres", "histories", "control", "stores")
"""What is removed when nothing was wrong."""
SUMMED = (
    *("faults", "turns", "events", "absorbed", "refused", "takeovers", "continued"),
    *("told_unknown", "interrupts", "heard", "refusals", "full", "resets", "cleared", "denied"),
    *("model_calls", "repeated_model_calls", "repeated_tool_runs"),
)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="which faults; at random if missing")
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--seconds", type=float, default=60.0, help="of faults, over all stores")
    parser.add_argument("--gap", type=float, default=GAP, help="seconds between two faults")
    parser.add_argument(
        "--quiet", type=float, default=QUIET, help="seconds it may stand still after the faults"
    )
    parser.add_argument("--size", type=Size, choices=list(Size), default=Size.USUAL)
    parser.add_argument(
        "--restore", action="store_true", help="put an older store in the place, and mend it"
    )
    parser.add_argument("--hours", type=float, default=0.0, help="go on, with new seeds")
    parser.add_argument("--folder", type=Path, default=RUNS, help="where the runs are kept")
    return parser.parse_args()


def _plans(options: argparse.Namespace) -> Iterator[Plan]:
    """The runs to do; for hours, without end."""
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    stores = STORES if options.store == "both" else (options.store,)
    of_all = (options.gap, options.quiet, options.size)
    if options.hours:
        for number, store in enumerate(itertools.cycle(stores)):
            # In every second round of all stores, as nothing may be deleted where one is put back.
            restores = options.restore and number // len(stores) % 2 == 0
            yield Plan(seed + number, store, ROUND, *of_all, restores)
    for store in stores:
        yield Plan(seed, store, options.seconds / len(stores), *of_all, options.restore)


def _one(plan: Plan, folder: Path, console: Console) -> dict[str, Any]:
    """Do one run and judge it; the verdict as it is written."""
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{plan.store}-{plan.seed}"
    console.print(f"{plan.command}\n  in {path}")
    done = asyncio.run(run(plan, path))
    verdict = asyncio.run(audit(done))
    show(verdict, json.loads(done.meta.read_text()), console)
    if verdict.passed:
        for name in BULKY:
            shutil.rmtree(path / name, ignore_errors=True)
        done.telemetry.unlink(missing_ok=True)
    else:
        console.print(f"[red]To do the same faults again:[/red] {plan.command}")
    return json.loads(done.verdict.read_text())


def main() -> int:
    """Do the runs that the command line asks for."""
    options, console = _options(), Console()
    ends = time.monotonic() + options.hours * 3600
    sums: Counter[str] = Counter()
    options.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    passed = True
    for plan in _plans(options):
        if options.hours and time.monotonic() > ends:
            break
        verdict = _one(plan, options.folder, console)
        passed = passed and verdict["passed"]
        sums.update({name: verdict["figures"][name] for name in SUMMED})
        sums["runs"] += 1
        sums["violations"] += sum(some["count"] for some in verdict["violations"].values())
        console.print("so far:", dict(sums))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
