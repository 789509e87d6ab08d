"""A worker is killed at each boundary of the event loop, and another one takes over."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.events import Event
from durable_adk.sessions import Status
from tests.chaos.conftest import MakePlace
from tests.support.processes import Control, Workplace
from tests.support.replay import replay_all
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE

CONCURRENT = 4
"""Cases at a time."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Where the worker dies, and what may be repeated because of it."""

    at: str
    app: str = "charge"
    again: dict[int, int] = field(default_factory=dict[int, int])
    """Model turns that are asked for more than once: in flight when the worker died."""
    runs: dict[str, int] = field(default_factory=lambda: {"charge": 1})
    """How often each tool begins."""

    @property
    def failpoint(self) -> str:
        """For `durable_adk.failpoints`: every entry kills."""
        return self.at.replace("@", ":kill@")

    @property
    def kills(self) -> int:
        """How often a worker dies."""
        return sum(len(part.partition("@")[2].split(",")) for part in self.at.split(";"))


CASES = [
    Case(at="model.before_call@2"),
    Case(at="model.after_call@2", again={1: 2}),
    Case(at="commit.before@2", runs={"charge": 2}),
    Case(at="commit.before@3", again={1: 2}),
    Case(at="commit.after@1,2,3"),
    Case(at="tool.halfway@1;tool.after_run@1;commit.before@3", again={1: 2}, runs={"charge": 3}),
    Case(at="code.halfway@1", app="code", runs={"code": 2}),
    Case(at="tool.late@1", app="triple", runs={"charge": 2, "late": 2}),
]
"""The first time at each failpoint is the matrix's: tests/chaos/test_failpoint_matrix.py."""


@dataclass(frozen=True)
class Outcome:
    """What was seen of a case."""

    place: Workplace
    yielded: list[Event]
    stored: list[Event]
    state: dict[str, Any]
    result: dict[str, Any]


async def _run(case: Case, place: Workplace) -> Outcome:
    async with place.restarted_worker(case.failpoint):
        yielded = await place.all_of(case.app)
        result = await place.workflow(case.app).result()
    return Outcome(place, yielded, await place.log(case.app), await place.state(case.app), result)


@pytest.fixture(scope="module")
async def outcomes(
    request: pytest.FixtureRequest, make_place: MakePlace
) -> AsyncIterator[dict[str, "asyncio.Task[Outcome]"]]:
    """The selected cases, running side by side; each test waits for its own."""
    turn = asyncio.Semaphore(CONCURRENT)

    async def in_turn(case: Case) -> Outcome:
        async with turn:
            return await _run(case, make_place())

    specs = [getattr(item, "callspec", None) for item in request.session.items]
    params = [spec.params.get("case") for spec in specs if spec]
    cases = [case for case in params if isinstance(case, Case)]
    tasks = {case.at: asyncio.create_task(in_turn(case)) for case in cases}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.at)
async def test_a_killed_worker_loses_and_doubles_nothing(
    case: Case, outcomes: dict[str, "asyncio.Task[Outcome]"], controls: dict[str, Control]
) -> None:
    """I1 to I4, I7 to I11: log, state and what the client sees are those of an undisturbed run.

    The model is asked again only for an answer that was not recorded; a tool runs again only if it
    was running, with the same key, so that its effect is one.
    """
    outcome, control = await outcomes[case.at], controls[case.app]
    assert outcome.place.deaths == case.kills
    assert [shape(event) for event in outcome.stored] == [shape(e) for e in control.stored]
    assert [shape(event) for event in outcome.yielded] == [shape(e) for e in control.yielded]
    assert outcome.state == control.state
    traces = outcome.place.traces
    assert traces.asked == {0: 1, 1: 1} | case.again
    assert {tool: len(traces.runs(tool)) for tool in case.runs} == case.runs
    charges = [
        call for e in control.stored for call in e.get_function_calls() if "charge" in call.name
    ]
    assert len({run["key"] for run in traces.runs("charge")}) == traces.effects == len(charges)
    assert outcome.result["status"] == Status.COMPLETED
    assert outcome.result["events"] == len(control.stored)


async def test_every_history_replays(
    outcomes: dict[str, "asyncio.Task[Outcome]"], client: Client
) -> None:
    """I13: what was recorded around the kills is what the code does."""
    await asyncio.gather(*outcomes.values())
    assert await replay_all(client) >= len(outcomes)


@pytest.mark.parametrize("moment", ["commit.after:kill@1", "commit.after:kill@2"])
async def test_a_custom_agent_is_not_shown_its_own_changes_again(
    moment: str, place: Workplace, controls: dict[str, Control]
) -> None:
    """I4, I7: a worker dies with its workflow task unrecorded; the state is that of the start."""
    async with place.restarted_worker(moment):
        yielded = await asyncio.wait_for(place.all_of("count"), PATIENCE)
    assert place.deaths == 1
    assert [shape(event) for event in yielded] == [shape(e) for e in controls["count"].yielded]
    assert await place.state("count") == {"count": 3}
