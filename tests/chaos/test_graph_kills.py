"""Workers are killed in the nodes of a graph, and round the commits of their events."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from durable_adk.events import Event
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import Status
from tests.chaos.conftest import MakePlace
from tests.support.chaos_apps import Traces
from tests.support.graph_apps import (
    AGAIN,
    AHEAD,
    CALLER,
    GRAPH,
    ITEMS,
    NUMBERS,
    QUESTION,
    RETRYING,
    graph_app,
)
from tests.support.processes import INVOCATION, SESSION, Workplace
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE

FUNCTIONS = ("first", "left", "right", "ask", "last")
SIDE_BY_SIDE = {"left", "right"}
"""One of them may be under way when its worker dies of the other's."""
BEFORE, AFTER = 5, 3
"""Number of events before the answer and after it."""
CASES: dict[str, tuple[int, set[str]]] = {
    "commit.after:kill@1,3,5,7": (4, set()),
    "commit.after:kill@2,4,6,8": (4, set()),
    "commit.before:kill@1": (1, {"first"}),
    "commit.before:kill@4,6": (2, set()),  # the loop commits a question
    "commit.before:kill@7,9": (2, {"writer", "last"}),
    "node.halfway:kill@1": (1, {"first"}),
    "node.halfway:kill@4": (1, {"ask"}),
    "node.halfway:kill@5;commit.after:kill@5": (2, {"last"}),
    "pause.after:kill@1;answer.after:kill@1": (2, set()),
}
"""Where workers die; how many of them, and which nodes run again for it."""


async def replied(runner: Runner, user: str) -> list[Event]:
    """Answer the question; what comes of it."""
    response = types.FunctionResponse(id=QUESTION, name="any", response={"result": "Go on."})
    message = types.Content(role="user", parts=[types.Part(function_response=response)])
    events = runner.run_async(user_id=user, session_id=SESSION, new_message=message)
    return [event async for event in events]


def in_order(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The events without their times, those of branches, which interleave, by their ids.

    The answer has an id of chance.
    """
    branched = sorted((one for one in events if one.branch), key=lambda one: one.id)
    ordered = (*branched, *(one for one in events if not one.branch))
    return [shape(one) | ({"id": ""} if ".answer." in one.id else {}) for one in ordered]


@pytest.fixture(scope="module")
async def control(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The log when nothing goes wrong."""
    folder: Path = tmp_path_factory.mktemp("control")
    async with InMemoryRunner(app=graph_app(Traces(folder))) as runner:
        where = {"user_id": "u", "session_id": SESSION}
        await runner.session_service.create_session(app_name=GRAPH, **where)
        asked = runner.run_async(**where, new_message="go", invocation_id=INVOCATION)
        assert len([event async for event in asked]) == BEFORE
        assert len(await replied(runner, "u")) == AFTER
        session = await runner.session_service.get_session(app_name=GRAPH, **where)
    assert session is not None
    return in_order(session.events)


async def answered(place: Workplace, app: str = GRAPH) -> list[Event]:
    """Answer the question of a workplace; what comes of it."""
    async with place.runner(app) as runner:
        return await asyncio.wait_for(replied(runner, place.queue), PATIENCE)


async def status(place: Workplace, app: str) -> Status | None:
    """How far the store says the invocation is."""
    record = await place.sessions.get_invocation(place.key(app), INVOCATION)
    return record.status if record else None


@pytest.mark.parametrize("app", [GRAPH, AHEAD])
@pytest.mark.parametrize("at", CASES)
async def test_a_graph_survives_its_workers(
    at: str, app: str, place: Workplace, control: list[dict[str, Any]]
) -> None:
    """I1 to I4, GR-57, GR-133: log and state are those of an undisturbed run.

    A function runs again only if its event was not stored when its worker died.
    """
    deaths, again = CASES[at]
    async with place.restarted_worker(at):
        asked = await asyncio.wait_for(place.all_of(app), PATIENCE)
        assert await status(place, app) is Status.PAUSED
        assert await place.sessions.active_invocation(place.key(app)) is None
        after = await answered(place, app)
        result = await place.workflow(app).result()
    assert place.deaths == deaths
    assert (len(asked), len(after)) == (BEFORE, AFTER)
    assert in_order(await place.log(app)) == control
    assert await place.state(app) == {"first": 1}
    assert result["status"] == Status.COMPLETED
    begun = place.traces.runs()
    assert [line for line in begun if line["key"] == AGAIN] == []
    runs = Counter(line["tool"] for line in begun)
    assert set(runs) == set(FUNCTIONS)
    expected = {name: 2 if name in again else 1 for name in FUNCTIONS}
    assert {name: runs[name] for name in expected if name not in SIDE_BY_SIDE} == {
        name: number for name, number in expected.items() if name not in SIDE_BY_SIDE
    }
    assert max(runs[name] for name in SIDE_BY_SIDE) <= 2
    assert place.traces.asked == {0: 2 if "writer" in again else 1}


async def test_a_question_is_answered_by_another_worker(
    make_place: MakePlace, control: list[dict[str, Any]]
) -> None:
    """D9, GR-133: what ran before the pause does not run again."""
    place = make_place()
    async with await place.start_worker():
        await asyncio.wait_for(place.all_of(GRAPH), PATIENCE)
    async with place.restarted_worker():
        assert len(await answered(place)) == AFTER
    assert in_order(await place.log(GRAPH)) == control
    assert Counter(line["tool"] for line in place.traces.runs()) == dict.fromkeys(FUNCTIONS, 1)


async def test_a_graph_survives_its_workers_across_workflow_runs(
    make_place: MakePlace, control: list[dict[str, Any]]
) -> None:
    """D10: each step may begin a workflow run, and its worker dies behind every second event."""
    place = make_place()
    place.history = 1
    async with place.restarted_worker("commit.after:kill@2,4,6,8"):
        await asyncio.wait_for(place.all_of(GRAPH), PATIENCE)
        await answered(place)
        await place.workflow(GRAPH).result()
    assert in_order(await place.log(GRAPH)) == control
    assert not any(line["key"] == AGAIN for line in place.traces.runs())
    assert place.traces.asked == {0: 1}


@pytest.mark.parametrize("history", [4000, 1])
async def test_attempts_are_counted_across_workers(history: int, make_place: MakePlace) -> None:
    """GR-110, GR-111, D10: a worker that dies behind an attempt's event takes none of the others.

    Also where the next attempt is that of another workflow run.
    """
    place = make_place()
    place.history = history
    async with place.restarted_worker("commit.after:kill@1,2"):
        events = await asyncio.wait_for(place.all_of(RETRYING), PATIENCE)
        await place.workflow(RETRYING).result()
    assert place.deaths == 2
    assert [line["key"] for line in place.traces.runs("flaky")] == ["1", "2", "3"]
    rows = [(event.error_code, event.actions.state_delta, event.output) for event in events]
    assert rows == [
        ("ValueError", {"try": 1}, None),
        ("ValueError", {"try": 2}, None),
        (None, {"try": 3}, "ok"),
    ]
    assert len(await place.log(RETRYING)) == len(rows) + 1


CALLED: dict[str, dict[str, int]] = {
    "commit.after:kill@1": {},
    "commit.after:kill@2,3": {},
    "commit.after:kill@4,5,6": {},
    "commit.after:kill@7,8,9": {},
    "commit.before:kill@2": {"work 1": 2},
    "commit.before:kill@3": {"writer": 2},
    "node.halfway:kill@1": {"work 1": 2},
    "result.noted:kill@1,2": {},
    "result.noted:kill@3,4": {},
    "pause.after:kill@1;answer.after:kill@1": {},
}
"""Where workers die; which called nodes run a second time for it."""
OUTPUT = [10, None, "Draft.", "Dynamic node fails failed", "Go on.", 20, 30]
"""What the code gives that has called them."""


@pytest.mark.parametrize("at", CALLED)
async def test_called_nodes_survive_the_worker(at: str, make_place: MakePlace) -> None:
    """GR-155, B-5, B-6: what a called node has done is not done again, whoever runs its caller."""
    place = make_place()
    async with place.restarted_worker(at):
        await asyncio.wait_for(place.all_of(CALLER), PATIENCE)
        assert await status(place, CALLER) is Status.PAUSED
        async with place.runner(CALLER) as runner:
            await asyncio.wait_for(replied(runner, place.queue), PATIENCE)
        result = await place.workflow(CALLER).result()
    assert place.deaths >= 1
    log = await place.log(CALLER)
    outputs = {e.node_info.path: e.output for e in log if e.output is not None}
    assert outputs.pop("wf@1/parent@1") == outputs.pop("wf@1/last@1") == OUTPUT
    assert outputs == {
        "wf@1/parent@1/work@1": 10,
        "wf@1/parent@1/ask@1": "Go on.",
        "wf@1/parent@1/work@2": 20,
        "wf@1/parent@1/work@3": 30,
    }
    assert len({event.id for event in log}) == len(log)
    assert [e.error_code for e in log if e.error_code] == ["ValueError"]
    assert result["status"] == Status.COMPLETED
    runs = Counter(line["tool"] for line in place.traces.runs())
    parents = runs.pop("parent")
    again = CALLED[at]
    assert [line for line in place.traces.runs() if line["key"] == AGAIN] == []
    assert runs.pop("work 2") <= 2  # beside the question, whose note may be its worker's end
    once = ("work 1", "work 3", "silent", "fails", "ask")
    assert runs == {name: again.get(name, 1) for name in once}
    assert place.traces.asked == {0: again.get("writer", 1)}
    assert 2 <= parents <= 2 + place.deaths
    assert result["modelCalls"] >= 1


KILLS = {
    "commit.after:kill@9": 1,  # the source, seven items; three others may run
    "commit.before:kill@6,20": 2,
    "node.halfway:kill@13;commit.after:kill@4": 2,
    "result.noted:kill@2": 1,  # behind the second item without output
}
"""Where workers die that run items, and how many of them."""
AT_ONCE = 4


@pytest.mark.parametrize("history", [4000, 1])
@pytest.mark.parametrize("at", KILLS)
async def test_items_that_have_ended_do_not_run_again(
    at: str, history: int, make_place: MakePlace
) -> None:
    """GR-59: of a batch that is run again, only items whose outputs were not stored run."""
    place = make_place()
    place.history = history
    async with place.restarted_worker(at):
        events = await asyncio.wait_for(place.all_of(ITEMS), PATIENCE)
        await place.workflow(ITEMS).result()
    assert place.deaths == KILLS[at]
    whole = [None if number % 5 == 0 else number for number in range(1, NUMBERS + 1)]
    assert events[-1].output == whole
    ids = [event.id for event in await place.log(ITEMS)]
    assert len(ids) == len(set(ids))
    begun = place.traces.runs()
    assert not any(line["key"] == AGAIN for line in begun)
    runs = Counter(line["tool"] for line in begun)
    assert set(runs) == {f"item-{number}" for number in range(1, NUMBERS + 1)}
    assert sum(runs.values()) <= NUMBERS + AT_ONCE * place.deaths
