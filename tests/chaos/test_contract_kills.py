"""What tools promise, and what model calls cost, when their worker is killed (I8, I10)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from durable_adk.client.queries import read_attempts
from durable_adk.errors import RunError
from durable_adk.events import Event
from durable_adk.server.routes.records import attempts_of
from durable_adk.sessions import Status
from durable_adk.sessions.call_attempt import AttemptEnd
from durable_adk.tools import ToolContract
from tests.chaos.thawing import thawed
from tests.support.contract_apps import (
    KEPT,
    NODE,
    NODE_RECONCILED,
    RECONCILED,
    RETRIED,
    SIDE_BY_SIDE,
)
from tests.support.processes import INVOCATION, Workplace
from tests.support.waiting import PATIENCE, until

ONCE = str(ToolContract.AT_MOST_ONCE)
AGAIN = [str(contract) for contract in ToolContract if contract != ONCE]
CONCURRENT = 4


@dataclass(frozen=True, kw_only=True)
class Case:
    """Where the worker dies, how often the tool ran then, and what the model receives."""

    at: str
    app: str
    runs: int
    unknown: bool = False
    found: int = 0
    """How often the tool looked for its lost run."""
    kills: int = 1


CASES = [
    *(Case(at="tool.before_run:kill@1", app=app, runs=1) for app in (*AGAIN, ONCE)),
    *(Case(at="tool.halfway:kill@1", app=app, runs=2) for app in AGAIN),
    *(Case(at="tool.after_run:kill@1", app=app, runs=2) for app in AGAIN),
    Case(at="tool.begun:kill@1", app=ONCE, runs=0, unknown=True),
    Case(at="tool.halfway:kill@1", app=ONCE, runs=1, unknown=True),
    Case(at="tool.after_run:kill@1", app=ONCE, runs=1, unknown=True),
    Case(at="commit.before:kill@2", app=ONCE, runs=1, unknown=True),
    Case(at="commit.after:kill@2", app=ONCE, runs=1),
    Case(at="tool.begun:kill@1", app=RECONCILED, runs=1, found=1),
    Case(at="tool.halfway:kill@1", app=RECONCILED, runs=2, found=1),
    Case(at="tool.after_run:kill@1", app=RECONCILED, runs=1, found=1),
    Case(at="tool.begun:kill@1,2", app=RECONCILED, runs=1, found=3, kills=2),
]


@dataclass(frozen=True)
class Outcome:
    """What was seen of a case."""

    place: Workplace
    stored: list[Event]
    status: Status

    @property
    def told(self) -> dict[str, Any]:
        """What the model receives as the call's result."""
        answers = [item for event in self.stored for item in event.get_function_responses()]
        assert len(answers) == 1
        return answers[0].response or {}


async def _run(case: Case, place: Workplace) -> Outcome:
    async with place.restarted_worker(case.at):
        with suppress(RunError, WorkflowFailureError):  # the store is looked at
            await asyncio.wait_for(place.all_of(case.app), PATIENCE)
            await place.workflow(case.app).result()
    record = await place.sessions.get_invocation(place.key(case.app), INVOCATION)
    assert record is not None
    return Outcome(place, await place.log(case.app), record.status)


@pytest.fixture(scope="module")
async def outcomes(
    request: pytest.FixtureRequest, make_place: Callable[[], Workplace]
) -> AsyncIterator[dict[Case, "asyncio.Task[Outcome]"]]:
    """The selected cases, running side by side; each test waits for its own."""
    turn = asyncio.Semaphore(CONCURRENT)

    async def in_turn(case: Case) -> Outcome:
        async with turn:
            return await _run(case, make_place())

    specs = [getattr(item, "callspec", None) for item in request.session.items]
    cases: list[Case] = [spec.params["case"] for spec in specs if spec and "case" in spec.params]
    tasks = {case: asyncio.create_task(in_turn(case)) for case in cases if isinstance(case, Case)}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


NODES = [
    Case(at="tool.begun:kill@1", app=NODE, runs=0, unknown=True),
    Case(at="tool.halfway:kill@1", app=NODE, runs=1, unknown=True),
    Case(at="commit.before:kill@2", app=NODE, runs=1, unknown=True),
    Case(at="commit.after:kill@2", app=NODE, runs=1),
    Case(at="tool.begun:kill@1", app=NODE_RECONCILED, runs=1, found=1),
    Case(at="tool.halfway:kill@1", app=NODE_RECONCILED, runs=2, found=1),
    Case(at="commit.before:kill@2", app=NODE_RECONCILED, runs=1, found=1),
]


@pytest.mark.parametrize("case", NODES, ids=lambda case: f"{case.app}-{case.at}")
async def test_a_tool_that_is_a_node_runs_as_often_as_it_allows(
    case: Case, outcomes: dict[Case, "asyncio.Task[Outcome]"]
) -> None:
    """I8: an unknown outcome fails the run; no other node takes it for a result."""
    outcome = await outcomes[case]
    traces = outcome.place.traces
    assert outcome.place.deaths == case.kills
    assert len(traces.runs("charge")) == case.runs
    assert len(traces.runs("find")) == case.found
    last = outcome.stored[-1]
    if case.unknown:
        assert (last.error_code, last.output) == ("ToolError", None)
        assert "outcome of this call of 'charge' is unknown" in (last.error_message or "")
        assert outcome.status is Status.FAILED
    else:
        assert "charged" in last.output
        assert outcome.status is Status.COMPLETED


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.app}-{case.at}")
async def test_a_tool_runs_as_often_as_it_allows(
    case: Case, outcomes: dict[Case, "asyncio.Task[Outcome]"]
) -> None:
    """I8, F9: the ledger is within the contract, the model gets the truth, the run continues."""
    outcome = await outcomes[case]
    traces = outcome.place.traces
    assert outcome.place.deaths == case.kills
    assert len(traces.runs("charge")) == case.runs
    assert len({run["key"] for run in traces.runs("charge")}) <= 1
    assert len(traces.runs("find")) == case.found
    assert (outcome.told.get("outcome") == "unknown") == case.unknown
    assert ("charged" in outcome.told) == (not case.unknown)
    assert outcome.stored[-1].text == "Charged."
    assert outcome.status is Status.COMPLETED


async def test_a_frozen_worker_does_not_make_an_at_most_once_tool_run_twice(
    place: Workplace,
) -> None:
    """F8, I8: it is given up before the tool has begun; its successor runs it, it never does."""
    async with await place.start_worker("tool.before_run:stop@1") as frozen:
        run = asyncio.create_task(place.all_of(ONCE))
        await until(lambda: place.traces.hits)
        async with await place.start_worker():
            events = await asyncio.wait_for(run, PATIENCE)
            await place.workflow(ONCE).result()
            await thawed(frozen)
    assert events[-1].text == "Charged."
    assert len(place.traces.runs("charge")) == 1


async def test_of_calls_at_once_only_the_lost_one_is_unknown(place: Workplace) -> None:
    """F10, I8: each call has its own contract; none runs twice."""
    async with place.restarted_worker("tool.halfway:kill@2"):
        await asyncio.wait_for(place.all_of(SIDE_BY_SIDE), PATIENCE)
    told = [
        answer.response or {}
        for event in await place.log(SIDE_BY_SIDE)
        for answer in event.get_function_responses()
    ]
    keys = [run["key"] for run in place.traces.runs("charge")]
    assert len(told) == len(keys) == len(set(keys)) == 2
    for answer in told:
        assert ("charged" in answer) != (answer.get("outcome") == "unknown")
    assert any(answer.get("outcome") == "unknown" for answer in told)


async def test_what_an_idempotent_tool_raises_is_retried_by_whichever_worker(
    place: Workplace,
) -> None:
    """D7: a kill between two runs costs one of the attempts, and no more."""
    async with place.restarted_worker("tool.before_run:kill@2"):
        events = await asyncio.wait_for(place.all_of(RETRIED), PATIENCE)
    assert events[-1].text == "Charged."
    assert len(place.traces.runs("flaky")) == 3
    assert len({run["key"] for run in place.traces.runs("flaky")}) == 1


@pytest.mark.parametrize("moment", ["received.noted", "callback.after_model", "commit.before"])
async def test_an_answer_that_has_arrived_is_paid_for_once(moment: str, place: Workplace) -> None:
    """I10, F2, F3: killed between the model's answer and its commit; no attempt was in vain."""
    async with place.restarted_worker(f"{moment}:kill@1"):
        events = await asyncio.wait_for(place.all_of(KEPT), PATIENCE)
    assert place.deaths == 1
    assert place.traces.asked == {0: 1}
    assert [event.text for event in await place.log(KEPT)][1:] == [events[-1].text]
    assert await read_attempts(place.sessions, place.key(KEPT), INVOCATION) == []


async def test_an_answer_that_is_lost_is_on_record(place: Workplace) -> None:
    """I10, F2: killed before it could be written down: asked twice, and that can be seen."""
    async with place.restarted_worker("model.after_call:kill@1"):
        await asyncio.wait_for(place.all_of(KEPT), PATIENCE)
    assert place.traces.asked == {0: 2}
    [attempt] = await read_attempts(place.sessions, place.key(KEPT), INVOCATION)
    assert (attempt.attempt, attempt.ended) == (1, AttemptEnd.LOST)


@pytest.mark.parametrize("app", ["model", "tool"])
async def test_the_worker_of_a_lost_attempt_is_on_record(app: str, place: Workplace) -> None:
    """I10, F12: SIGKILL amid a call, after a heartbeat: its successor says on which worker."""
    async with await place.start_worker() as killed:
        run = asyncio.create_task(place.all_of(app))
        worker = await until(lambda: heartbeat_of(place, app))
        assert worker.startswith(f"{killed.pid}@")
        await killed.kill()
    place.traces.open_gate()
    async with await place.start_worker():
        events = await asyncio.wait_for(run, PATIENCE)
    key = place.key(app)
    record = await place.sessions.get_invocation(key, INVOCATION)
    assert record is not None
    found = await attempts_of(place.sessions, key, record, events)
    lost = [(one.attempt, one.worker, one.tool) for one in found if one.outcome == "lost"]
    assert lost == [(1, worker, "patient" if app == "tool" else None)]


async def heartbeat_of(place: Workplace, app: str) -> str:
    """The worker whose activity has sent a heartbeat, by its identity; empty if none has."""
    with suppress(RPCError):  # the workflow has not started yet
        description = await place.workflow(app).describe()
        for pending in description.raw_description.pending_activities:
            if pending.HasField("last_heartbeat_time") and pending.heartbeat_details.payloads:
                return pending.last_worker_identity
    return ""
