"""Every failpoint, with all that can be done there, on either store.

A run of the tests takes a sixth of the cells: every failpoint, with an action and a store that the
sample chooses (tests/support/sampling.py). ``make matrix`` does all.
"""

import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.client import temporal_backend
from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from durable_adk.sessions import DatabaseSessionService, Status
from durable_adk.tools import ToolContract
from tests.support.apps import all_apps
from tests.support.matrix_cases import SCENES, STORES, Case, Due, Rival, Scene, cases
from tests.support.matrix_runs import Outcome, Place, run
from tests.support.replay import replay_all
from tests.support.required import module
from tests.support.sampling import SAMPLE
from tests.support.scripts import gist, shape
from tests.support.waiting import PATIENCE
from tests.support.worker_pool import WorkerPool

CASES = cases(SAMPLE)
CONCURRENT = 12
"""Cases at a time; most of a case's time somebody waits for a timeout."""


MakePlace = Callable[[str], Place]
Controls = dict[tuple[Scene, str], Outcome]


@pytest.fixture(scope="module")
async def make_place(
    server: TemporalServer,
    client: Client,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_url: str,
) -> AsyncIterator[MakePlace]:
    """Make a workplace on a store; its apps are served here too, for the replays at the end."""
    places: list[Place] = []

    def make(store: str) -> Place:
        folder = tmp_path_factory.mktemp("place")
        url = postgres_url if store == "postgres" else f"sqlite:///{folder}/sessions.db"
        place = Place(folder=folder, client=client, address=server.address, store=url)
        serve(place.queue, AppRegistry(all_apps(folder).values()))
        places.append(place)
        return place

    yield make
    for place in places:
        await place.sessions.close()


@pytest.fixture(scope="module")
async def postgres_url() -> AsyncIterator[str]:
    """A real PostgreSQL with our tables, for as long as the tests run."""
    postgres = module("campaign.postgres")
    # Not in pytest's folder, which every other run of pytest closes to PostgreSQL's user.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        running = postgres.Postgres(Path(folder) / "data")
        await running.start()
        sessions = DatabaseSessionService(running.url())
        await sessions.prepare()
        await sessions.close()
        yield running.url()
        await running.stop()


@pytest.fixture(scope="module")
def pool(server: TemporalServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """The worker processes."""
    made = WorkerPool(address=server.address, folder=tmp_path_factory.mktemp("pool"))
    yield made
    made.close()


@pytest.fixture(scope="module")
async def controls(pool: WorkerPool, make_place: MakePlace) -> Controls:
    """What each scene does on each store when nothing goes wrong."""
    cells = [(scene, store) for scene in SCENES for store in STORES]
    turn = asyncio.Semaphore(4)  # they wait for nothing: more of them would only be more processes

    async def in_turn(scene: Scene, store: str) -> Outcome:
        async with turn:
            return await run(pool, make_place(store), scene)

    outcomes = await asyncio.gather(*(in_turn(*cell) for cell in cells))
    return dict(zip(cells, outcomes, strict=True))


@pytest.fixture(scope="module")
async def outcomes(
    request: pytest.FixtureRequest, pool: WorkerPool, make_place: MakePlace, controls: Controls
) -> AsyncIterator[dict[Case, "asyncio.Task[Outcome]"]]:
    """The selected cases, running side by side; each test waits for its own.

    Clients wait as long for a worker as the tests do: a busy machine delays its first poll.
    """
    patch = pytest.MonkeyPatch()
    patch.setattr(temporal_backend, "WORKER_CHECK", PATIENCE)
    request.addfinalizer(patch.undo)  # noqa: PT021 - at the end of the module
    turn = asyncio.Semaphore(CONCURRENT)

    async def in_turn(case: Case) -> Outcome:
        async with turn:
            count = 1 if case.action == "raise" else 2
            place = make_place(case.store)
            scene = scene_of(case, controls)
            return await run(pool, place, scene, failpoint=case.armed, count=count)

    specs = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [spec.params["case"] for spec in specs if spec and "case" in spec.params]
    tasks = {case: asyncio.create_task(in_turn(case)) for case in CASES if case in wanted}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


def scene_of(case: Case, controls: Controls) -> Scene:
    """The first scene that passes by the case's failpoint."""
    for scene in SCENES:
        if case.failpoint in controls[scene, case.store].place.traces.hits:
            return scene
    raise AssertionError(f"no scene passes by {case.failpoint}; add one to matrix_cases.SCENES")


def shapes(events: list[Event]) -> list[dict[str, Any]]:
    """All that must be equal between two runs.

    Times differ, the name that a client gives an answer, and in a call's key the session's name.
    """
    drawn = re.compile(r"(?<=\.answer)\.[0-9a-f]{32}|(?<=:)[0-9a-f]{32}(?=:)")
    return json.loads(drawn.sub("", json.dumps([shape(event) for event in events])))


def _check(case: Case, outcome: Outcome, control: Outcome) -> None:
    """Compare a case with the undisturbed run of its scene.

    Raises:
        AssertionError: Something differs that must not.
    """
    assert case.failpoint in outcome.place.traces.hits, "the failpoint was never hit"
    assert outcome.deaths == (case.action == "kill")
    assert outcome.lease_owner is None, "the session's lease was not given back (I24)"
    _check_calls(outcome)
    _check_ledger(case, outcome, control)
    assert outcome.error is None
    assert outcome.record is not None
    assert outcome.record.status is Status.COMPLETED
    if case.due is Due.UNKNOWN and _said_unknown(outcome):
        assert list(map(gist, outcome.stored)) == list(map(gist, control.stored))
        assert [event.id for event in outcome.stored] == [event.id for event in control.stored]
        return
    kept = control.stored
    if case.due is Due.NO_SUMMARY:
        kept = [event for event in kept if event.actions.compaction is None]
    assert shapes(outcome.stored) == shapes(kept)
    assert shapes(outcome.yielded) == shapes(control.yielded)
    assert outcome.state == control.state
    assert outcome.versions == control.versions
    assert outcome.place.refusal == control.place.refusal


def _check_calls(outcome: Outcome) -> None:
    """I9: a response for each call, the last word on it only once."""
    calls = [call.id for event in outcome.stored for call in event.get_function_calls()]
    answered = {item.id for event in outcome.stored for item in event.get_function_responses()}
    assert len(calls) == len(set(calls))
    assert set(calls) == answered


def _check_ledger(case: Case, outcome: Outcome, control: Outcome) -> None:
    """I8, I10: what runs a second time was running when it was hurt, and has one effect."""
    before, after = control.place.traces, outcome.place.traces
    # Who dies where a second message comes may be running the tool that waits meanwhile.
    repeats = 1 if outcome.scene.rival else case.repeats
    assert sum(after.asked.values()) <= sum(before.asked.values()) + repeats
    runs, known = (
        Counter((run["tool"], run["key"]) for run in traces.runs()) for traces in (after, before)
    )
    assert len(runs) <= len(known)
    assert runs.total() <= known.total() + repeats
    assert outcome.scene.app != ToolContract.AT_MOST_ONCE or runs.total() <= 1
    assert after.effects <= before.effects
    if case.due is Due.SAME:
        assert after.effects == before.effects


def _said_unknown(outcome: Outcome) -> bool:
    answers = [item for event in outcome.stored for item in event.get_function_responses()]
    return any((answer.response or {}).get("outcome") == "unknown" for answer in answers)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_whatever_happens_at_a_failpoint_the_outcome_is_due(
    case: Case, outcomes: dict[Case, "asyncio.Task[Outcome]"], controls: Controls
) -> None:
    """I1 to I11, I24: log, state and what the client sees are those of an undisturbed run.

    But for the few cells that `matrix_cases.DUE` names, whose sessions are left in order as well.
    """
    outcome = await outcomes[case]
    _check(case, outcome, controls[outcome.scene, case.store])


def test_both_stores_hold_the_same(controls: Controls) -> None:
    """I1: the undisturbed runs differ in nothing but where they are stored."""
    for scene in SCENES:
        one, other = (controls[scene, store] for store in STORES)
        assert shapes(one.stored) == shapes(other.stored), scene
        assert one.state == other.state, scene


def test_second_messages_are_told_what_they_wanted(controls: Controls) -> None:
    """D7: undisturbed, they are delivered, refused, or run; files have one version (I5)."""
    refusals = {scene.rival: controls[scene, "sqlite"].place.refusal for scene in SCENES}
    assert refusals[Rival.STEER] == ""
    assert refusals[Rival.REJECT] == "SessionBusyError"
    assert refusals[Rival.CANCEL] == "InvocationCancelledError"
    assert refusals[Rival.WAIT] == ""
    assert refusals[Rival.ENDS] == "cancelled"
    assert refusals[Rival.CLEARS] == "LeaseLostError"
    assert controls[Scene("saving"), "postgres"].versions == [0]


async def test_every_history_replays(
    outcomes: dict[Case, "asyncio.Task[Outcome]"], client: Client
) -> None:
    """I13: what was recorded around the faults is what the code does."""
    await asyncio.gather(*outcomes.values())
    assert await replay_all(client) >= len(outcomes)
