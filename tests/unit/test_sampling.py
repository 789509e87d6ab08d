"""Which share of a matrix a run of the tests takes, and what is drawn in it."""

import datetime as dt
import importlib.util
import re
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import core, given, settings, strategies as st

from simulation.catalogue import SCENARIOS
from tests.scenarios.catalogue import BY_NAME
from tests.support import matrix_cases, replay, sampling, seeds
from tests.support.required import ROOT


def test_the_gates_campaigns_have_seeds() -> None:
    """`make chaos` has a fixed seed for each store, and CI draws nothing."""
    rule = r"^(test[-\w]*|chaos):.*\n((?:\t.*\n)+)"
    gate = dict(re.findall(rule, _text("Makefile"), re.MULTILINE))
    assert {"test", "test-all", "test-thorough", "chaos"} <= gate.keys()
    campaigns = re.findall(r"\$\(CAMPAIGN\)(.*?) --seconds", "".join(gate.values()))
    assert sorted(campaigns) == sorted(
        f" --seed {numbers[0]} --store {store}" for store, numbers in seeds.CAMPAIGNS.items()
    )
    assert not re.search(r"\$RANDOM|\bgit\b|\bdate\b|shuf|urandom", "".join(gate.values()))
    script = _text(".ci/run")
    assert not re.search(r"\$\{?RANDOM|git rev-parse|\$\(date|shuf|urandom|-m campaign", script)
    assert re.search(r"^make .*\bchaos\b", script, re.MULTILINE)


async def test_histories_are_chosen_by_the_names_of_their_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever their ids: all runs of a workflow belong to the test that was running at first."""
    names = [f"tests/{file}.py::test_{number}" for file in "ab" for number in range(9)]
    replayed = "tests/a.py::test_3"
    noted = [replay.Began(10.0 * at, name, name == replayed) for at, name in enumerate(names, 1)]
    monkeypatch.setattr(replay, "_TESTS", noted)
    chosen = {name for name in names if sampling.is_taken(name, 3)} | {replayed}
    for draw in ("x", "y"):
        # Each is followed by another run of the same workflow, when other tests are running.
        server = _Server(
            _run(draw + name, 10 * at + later)
            for at, name in enumerate(names, 1)
            for later in (1, 26)
        )
        found = [run.id for run in await replay._executions(server, 3)]
        assert sorted(found) == sorted(2 * [draw + name for name in chosen])
        of_the_file = {run.id for run in await replay._executions(server, None)}
        assert of_the_file == {draw + name for name in names if name.startswith("tests/b.py")}


def _run(name: str, second: int) -> Any:
    start = dt.datetime.fromtimestamp(second, dt.UTC)
    return SimpleNamespace(id=name, task_queue="q", start_time=start)


class _Server:
    """Lists runs, in the place of a client."""

    def __init__(self, runs: Iterable[Any]) -> None:
        self._runs = list(runs)

    async def list_workflows(self, kinds: str) -> AsyncIterator[Any]:
        """See `Client`."""
        for run in self._runs:
            yield run


def _text(name: str) -> str:
    return (ROOT / name).read_text()


def test_what_was_found_is_still_there() -> None:
    """A found case that has been renamed would silently not run any more."""
    assert seeds.SCHEDULES.keys() <= {scenario.name for scenario in SCENARIOS}
    assert seeds.KILLS.keys() <= BY_NAME.keys()
    assert {str(case) for case in matrix_cases.cases("all")} >= seeds.CELLS
    for test in seeds.TAKEN:
        file, name = test.partition("[")[0].split("::")
        assert f"def {name}(" in _text(file)


def test_cells_depend_on_no_other_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new failpoint changes nothing in what is done at the others; each has one cell."""
    before = matrix_cases.cases("5")
    points = matrix_cases.failpoints()
    assert {case.failpoint for case in before} == set(points)
    monkeypatch.setattr(matrix_cases, "failpoints", lambda: ["new.before", *points])
    assert [one for one in matrix_cases.cases("5") if one.failpoint != "new.before"] == before
    assert len(before) == len(points)


@pytest.mark.skipif(seeds.SEED is not None, reason="what is drawn now is what is not wanted there")
def test_the_gates_examples_do_not_depend_on_what_has_been_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A property is tried with the same examples in any process, and after any other change."""
    before = _examples()
    file = tmp_path / "constants.py"
    file.write_text(f"NUMBERS = {list(range(1000, 2000))}")
    spec = importlib.util.spec_from_file_location("constants", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "constants", module)
    assert _examples() == before
    assert core.global_force_seed is None
    assert (settings.default.derandomize, settings.default.database) == (True, None)


def _examples() -> list[int]:
    made: list[int] = []

    @settings(max_examples=200)
    @given(st.integers(0, 10**6))
    def collect(number: int) -> None:
        made.append(number)

    collect()
    return made
