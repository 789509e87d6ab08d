"""What `make explore` runs, in which order, and how it ends."""

from collections.abc import Mapping
from itertools import islice

import pytest

from tests import explore
from tests.explore import PROPERTIES, SAMPLED, Step, steps
from tests.support import seeds


def first(count: int, *, seed: int = 7) -> list[Step]:
    """The first steps of a seed."""
    return list(islice(steps(seed), count))


class Clock:
    """Runs steps in no time, on a clock of its own; one that the end comes upon is cut."""

    def __init__(self, *, lasts: float = 10, fails: Mapping[int, int] | None = None) -> None:
        self.now, self._lasts, self._fails = 0.0, lasts, fails or {}
        self.begun: list[Step] = []

    def __call__(self) -> float:
        return self.now

    def run(self, step: Step, seconds: float) -> int | None:
        """See `explore.Run`."""
        self.begun.append(step)
        self.now += min(self._lasts, seconds)
        return None if seconds < self._lasts else self._fails.get(len(self.begun), 0)


def test_a_seed_draws_the_same_steps_and_another_one_others() -> None:
    """The whole sequence comes of one number."""
    assert first(40) == first(40)
    assert [step.command for step in first(40)] != [step.command for step in first(40, seed=8)]
    numbers = [step.seed for step in first(40) if step.kind != "campaign"]
    assert len(set(numbers)) == len(numbers)


def test_every_generator_comes_up_in_each_round() -> None:
    """Five steps are a round: none of the kinds waits for another's end."""
    drawn = first(50)
    for start in range(0, len(drawn), 5):
        kinds = sorted(step.kind for step in drawn[start : start + 5])
        assert kinds == ["campaign", "properties", "sample", "sample", "simulation"]
    stores = {step.command.partition("--store ")[2] for step in drawn if step.kind == "campaign"}
    assert {store.split()[0] for store in stores} == set(seeds.CAMPAIGNS)


def test_every_folder_and_file_comes_up() -> None:
    """Before a folder comes again all others have come, and so it is with its files."""
    taken = [_files(step) for step in first(50) if step.kind == "sample"]
    folders = [{file.split("/")[1] for file in files} for files in taken[: len(SAMPLED)]]
    assert sorted(folder for found in folders for folder in found) == sorted(SAMPLED)
    tried = [_files(step) for step in first(5 * len(PROPERTIES)) if step.kind == "properties"]
    assert {file.split("/")[1] for files in tried for file in files} == set(PROPERTIES)
    chaos = [
        file for step in first(300) for file in _files(step) if file.startswith("tests/chaos/")
    ]
    assert "tests/chaos/test_failpoint_matrix.py" in chaos
    assert len(set(chaos)) == len(explore._files("chaos", ("replayed",)))
    assert not [file for step in first(300) for file in _files(step) if "/objects/" in file]


def _files(step: Step) -> list[str]:
    return [argument for argument in step.arguments if argument.startswith("tests/")]


def test_a_command_names_all_that_its_step_draws_from() -> None:
    """Repeated by hand, it does the same."""
    for step in first(100):
        number = str(step.seed)
        drawn = [argument for argument in step.arguments if argument == number]
        drawn += [value for value in step.variables.values() if value == number]
        assert drawn
        assert all(f"{name}={value}" in step.command for name, value in step.variables.items())
        assert step.command.endswith(step.arguments[-1])
        if step.kind == "sample":
            assert step.variables == {
                "DURABLE_ADK_TESTS_SAMPLE": number,
                "DURABLE_ADK_TESTS_SEED": number,
            }


def test_what_is_found_is_said_at_once_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that repeats it; others continue."""
    clock = Clock(fails={2: 1, 3: -11})
    found = explore.explore(steps(7), clock.run, seconds=45, clock=clock)
    assert found == clock.begun[1:3]
    said = capsys.readouterr().out
    assert all(said.count(step.command) == 3 for step in found)
    assert said.count(clock.begun[0].command) == 1
    assert said.index("FOUND: it exits with -11") < said.index("[4] ")
    assert "5 steps; 2 found something" in said


def test_a_slice_without_tests_is_no_finding() -> None:
    """Of a sample, a file may have none."""
    clock = Clock(fails=dict.fromkeys(range(1, 100), explore.NO_TESTS))
    found = explore.explore(steps(7), clock.run, seconds=100, clock=clock)
    assert {step.kind for step in found} == {"simulation", "campaign"}


def test_the_step_at_the_end_is_cut_and_has_found_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """However long it would have continued, the time is kept."""
    clock = Clock(lasts=40, fails={3: 1})
    assert explore.explore(steps(7), clock.run, seconds=100, clock=clock) == []
    assert len(clock.begun) == 3
    assert clock.now == 100
    assert "after 20 s: cut" in capsys.readouterr().out
