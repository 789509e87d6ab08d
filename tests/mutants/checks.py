"""The checks that have to notice a mutant: a scenario of the simulation with every single fault.

Each returns what it has found wrong, the empty string if nothing.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from simulation.catalogue import SCENARIOS
from simulation.explore import Explorer, Verdict

Check = Callable[[], str]
SEEDS = 10
"""Random schedules that follow the listed ones."""


def simulated(name: str, *invariants: str) -> Check:
    """Every fault at every point of a scenario, then some seeds, until an invariant breaks.

    Args:
        name: Of the scenario.
        *invariants: Those of which one has to break; none: any.
    """

    def check() -> str:
        scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
        try:
            explorer = Explorer(scenario)
        except AssertionError as error:
            return _matching(str(error), invariants)
        return next((found for v in _schedules(explorer) if (found := _bad(v, invariants))), "")

    return check


def followed(name: str, first: str, second: str, *, start: str) -> Check:
    """One kind of fault, at every point since `start`, and after it another."""

    def check() -> str:
        scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
        verdicts = Explorer(scenario).followed(first, second, start=start)
        return next((found for v in verdicts if (found := _bad(v, ()))), "")

    return check


def _schedules(explorer: Explorer) -> Iterator[Verdict]:
    return chain(explorer.singles(), (explorer.seeded(seed) for seed in range(SEEDS)))


def _bad(verdict: Verdict, invariants: tuple[str, ...]) -> str:
    return _matching("; ".join(verdict.problems), invariants)


def _matching(problems: str, invariants: tuple[str, ...]) -> str:
    wanted = not invariants or any(
        f"{name}:" in problems or f"{name} " in problems for name in invariants
    )
    return problems if wanted else ""


CHECKS: dict[str, Check] = {
    "append once": simulated("tool turn", "I1", "I2"),
    "fold": simulated("callbacks and plugins", "I4"),
    "fold of a turn": simulated("tool turn", "I4"),
    "order": simulated("tool turn", "I3"),
    "no loss": simulated("tool turn", "I2"),
    "no loss in the loop": simulated("three calls", "I2"),
    "one user event": simulated("tool turn", "I12"),
    "one writer": simulated("two messages"),
    "fence": simulated("takeover", "I6"),
    "takeover": simulated("takeover"),
    "lease": simulated("tool turn", "I6"),
    "tool keys": simulated("tool turn", "I8"),
    "at most once": simulated("at most once", "I8"),
    "pairing": simulated("cancelled", "I9"),
    "no asking again": simulated("tool turn", "I10", "I2"),
    "replay": simulated("tool turn", "I13"),
    "cancel of a turn": simulated("cancelled", "I15"),
    "commit before resume": simulated("custom agent"),
    "lanes": simulated("side by side", "I7"),
    "approval": simulated("approval"),
    "tickets": simulated("steered", "I24"),
    "refused": followed("refused", "competing", "ghost", start="call_model.2/1 report"),
    "roll": simulated("rolls over"),
}
