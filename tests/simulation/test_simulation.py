"""The loop under a simulated Temporal, with faults everywhere; see docs/know/durability.md."""

import re
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import pytest

from durable_adk.settings import Limits
from simulation.audit import audit
from simulation.catalogue import BUDGETS, CUSTOM_ROLLS, LEFT_TO_LOOP, SCENARIOS, TOOL_TURN
from simulation.explore import Explorer, Share, Verdict, little_garbage
from simulation.scenario import Scenario
from simulation.schedule import Listed, Point, Seeded
from simulation.server import Item
from simulation.simulation import Simulation, label
from tests.support import sampling, seeds

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
SEEDS = 4
KINDS = ("die", "dropack")
TOO_LARGE = {"PayloadsTooLarge", "PayloadSizeError"}
"""As releases of the SDK have called it."""
EVERY = 1 if sampling.ALL else 36
"""Of how many single faults one is tried; `make simulate` tries them all."""


@pytest.fixture(autouse=True)
def _garbage() -> Generator[None]:
    """Collected between the tests, not within."""
    with little_garbage():
        yield


def _violations(verdicts: Iterable[Verdict]) -> list[str]:
    return [str(verdict) for verdict in verdicts if verdict.problems]


@pytest.mark.sampled(1)  # it takes its share itself
@pytest.mark.sampled(2)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_single_fault_at_any_point_shows(scenario: Scenario) -> None:
    """I1..I15: whatever goes wrong once, wherever, the outcome is that of the undisturbed run."""
    share = Share(sampling.turn(scenario.name, EVERY), EVERY)
    assert _violations(Explorer(scenario).singles(share)) == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_random_schedule_shows(scenario: Scenario) -> None:
    """The same in any order of things, with up to eight faults; also where it once was not so."""
    explorer = Explorer(scenario)
    numbers = (*range(SEEDS), *seeds.SCHEDULES.get(scenario.name, ()))
    assert _violations(map(explorer.seeded, numbers)) == []


@pytest.mark.parametrize("scenario", BUDGETS, ids=lambda scenario: scenario.name)
def test_a_budget_ends_what_would_not_end(scenario: Scenario) -> None:
    """S17: so the faults at every point show that each call counts once, whatever was repeated."""
    result = Simulation(scenario, Listed()).run()
    assert result.events[-1]["errorCode"] == "BudgetExceededError"


def test_no_two_deaths_or_lost_replies_show() -> None:
    """The same for each pair of dead workers and lost replies of the store in a tool turn."""
    assert _violations(Explorer(TOOL_TURN).pairs(KINDS)) == []


def test_a_body_whose_end_nobody_has_heard_of_does_not_begin_anew() -> None:
    """D10, I2: what it received before is removed with its end, after which its worker died."""
    explorer = Explorer(CUSTOM_ROLLS)
    verdicts = list(explorer.followed("timeout", "die", start="task 0 of run-4"))
    assert _violations(verdicts) == []
    assert any(_begins_after_its_end(verdict) for verdict in verdicts)


def _begins_after_its_end(verdict: Verdict) -> bool:
    """Whether a worker read what a body had received, when its invocation had ended."""
    labels = [point.label for point in verdict.points]
    closing = re.compile(r"close_invocation\..* write\.after")
    ended = next((n for n, label in enumerate(labels) if closing.match(label)), len(labels))
    return verdict.faults == 2 and "start read_journals" in labels[ended:]


class _Between(Listed):
    """An attempt is taken for dead as it commits, and does so right before the loop's commit."""

    wild = True
    LATE, LOOP = "call_model.2/1 write.before", "commit_event.3/1 write.before"

    def choose(self, items: Sequence[Item]) -> int:
        """See `Plan`."""
        labels = [label(item) for item in items]
        lost = any(point.label == self.LATE for point in self.points)
        if lost and self.LOOP in labels and self.LATE in labels:
            return labels.index(self.LATE)
        return next((n for n, one in enumerate(labels) if not lost or one != self.LATE), 0)

    def fault(self, point: Point) -> str | None:
        """See `Plan`."""
        self.points.append(point)
        return "double" if point.label == self.LATE and "double" in point.faults else None


def test_an_attempt_that_is_alive_does_not_come_between_a_result_and_its_commit() -> None:
    """I1, F8: what a later attempt has left to the loop is what is stored."""
    plan = _Between()
    result = Simulation(LEFT_TO_LOOP, plan).run()
    labels = [point.label for point in plan.points]
    assert labels.count(plan.LATE) == 2
    assert labels[labels.index(plan.LOOP) - 1] == plan.LATE
    assert audit(result, Simulation(LEFT_TO_LOOP, Listed()).run()) == []


def test_the_engine_is_asked_for_what_it_can_bear() -> None:
    """D4, F31: a result that is too large is not asked for again; local activities are short."""
    result = Simulation(TOOL_TURN, Listed()).run()
    commands = [command for run in result.runs for task in run.history for command in task.commands]
    remote = [one.schedule_activity for one in commands if one.HasField("schedule_activity")]
    local = [c.schedule_local_activity for c in commands if c.HasField("schedule_local_activity")]
    assert remote
    assert local
    for one in remote:
        assert set(one.retry_policy.non_retryable_error_types) >= TOO_LARGE
    for one in local:
        seconds = one.schedule_to_close_timeout.ToMicroseconds() / 1e6
        assert 0 < seconds <= Limits().local_commit_timeout
        assert one.retry_policy.maximum_attempts == 1


def test_the_command_begins_anywhere_and_says_where() -> None:
    """What was run can be run again: the first seed is drawn and printed, unless it is passed."""
    drawn = [_printed("--seconds=0") for _ in range(2)]
    assert len(set(drawn)) == 2
    assert all(re.fullmatch(r"random schedules from seed \d+ on", line) for line in drawn)
    assert _printed("--seconds=0", "--first=7") == "random schedules from seed 7 on"


def _printed(*options: str) -> str:
    """The first line of what the command says."""
    command = [sys.executable, "-m", "simulation", "--scenario", TOOL_TURN.name, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.splitlines()[0]


def test_a_seed_is_always_the_same_schedule() -> None:
    """A violation can be looked at again: the same points, faults and events come of a seed."""

    def play(seed: str) -> tuple[object, ...]:
        plan = Seeded(seed)
        result = Simulation(TOOL_TURN, plan).run()
        return plan.points, result.done, result.bodies

    assert all(play(f"again/{seed}") == play(f"again/{seed}") for seed in range(5))


def test_the_simulation_meets_what_it_is_about() -> None:
    """A schedule is no evidence if nothing went wrong in it: every kind of fault has happened."""
    explorer = Explorer(TOOL_TURN)
    done = {kind.partition(" ")[0] for v in explorer.singles() for kind in v.done}
    expected = {"die", "crash", "double", "late", "ghost", "timeout", "outlast", "refuse"}
    assert done == expected | {"dropack", "evict"}
