"""Items of parallel workers, of which one activity runs several."""

import asyncio
import uuid
from collections import Counter
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.client import workflow_id
from durable_adk.errors import AgentError, PayloadTooLargeError
from durable_adk.events import Event, EventActions
from durable_adk.events.request_input import RequestInput
from durable_adk.flows.graph import worker
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.settings import Limits
from tests.conftest import MakeRunner
from tests.integration.test_graphs import (
    KEY,
    Runs,
    answer,
    asks,
    ends,
    fail,
    fails,
    gives,
    log,
    reply,
    said,
)
from tests.support.scripts import send

pytestmark = pytest.mark.replayed

ITEMS = 1_000
EVENTS = 300
"""History events of so many items, at most."""


def numbers(node_input: str) -> list[int]:
    """The items: as many as the message says."""
    return list(range(1, int(node_input) + 1))


def worker_of(function: Any, *after: Any, **options: Any) -> Workflow:
    """A graph that runs a function for each of some numbers."""
    each = node(function, name="each", parallel_worker=True, **options)
    return Workflow(name="wf", edges=[("START", node(numbers, name="numbers"), each, *after)])


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_thousand_items_take_few_history_events(
    make_runner: MakeRunner, client: Client
) -> None:
    """GR-59: all of them run, once each, and the list has their order."""
    runs, name = Runs(), uuid.uuid4().hex

    async def double(node_input: int) -> int:
        runs[node_input] += 1
        return 2 * node_input

    runner = await make_runner(worker_of(double))
    events = await send(runner, str(ITEMS), invocation_id=name)
    assert events[-1].output == [2 * number for number in range(1, ITEMS + 1)]
    assert runs == Counter(range(1, ITEMS + 1))
    history = await client.get_workflow_handle(workflow_id(KEY, name)).fetch_history()
    assert len(history.events) <= EVENTS


async def test_no_more_items_run_at_once_than_the_worker_allows(make_runner: MakeRunner) -> None:
    """GR-60: also not while one is tried again."""
    running, most, attempts = Counter[str](), Counter[str](), Runs()

    async def item(node_input: int) -> int:
        attempts[node_input] += 1
        running["now"] += 1
        most["ever"] = max(most["ever"], running["now"])
        await asyncio.sleep(0)
        running["now"] -= 1
        if node_input % 10 == 0 and attempts[node_input] == 1:
            raise ValueError(node_input)
        return node_input

    retry = NodeRetryConfig(max_attempts=2, initial_delay=0.01, jitter=0)
    runner = await make_runner(worker_of(item, max_parallel_workers=3, retry_config=retry))
    rows = await said(runner, "60")
    assert rows[-1] == ends("each@1", list(range(1, 61)))
    assert most["ever"] <= 3
    tried = {number: 2 if number % 10 == 0 else 1 for number in range(1, 61)}
    assert attempts == tried
    failures = [one for one in rows if one.error]
    assert sorted(failures) == sorted(
        fails(f"each@1/each@{number}", "ValueError", f"each@{number}")
        for number in range(10, 61, 10)
    )


async def test_an_item_that_fails_cancels_the_others(make_runner: MakeRunner) -> None:
    """GR-60, GR-112: those that run are cancelled, and no further one begins."""
    runs, cancelled = Runs(), asyncio.Event()

    async def item(node_input: int) -> int:
        runs[node_input] += 1
        if node_input == 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
        if node_input == 4:
            raise ValueError("four")
        return node_input

    runner = await make_runner(worker_of(item, max_parallel_workers=2))
    _, error = await fail(runner, "60")
    assert isinstance(error, (AgentError, ValueError))
    assert "four" in str(error)
    assert cancelled.is_set()
    assert runs == dict.fromkeys((1, 2, 3, 4), 1)
    assert [one for one in await log(runner) if one.path.startswith("wf@1/each")] == [
        gives("each@1/each@1", 1, "each@1"),
        gives("each@1/each@3", 3, "each@3"),
        fails("each@1/each@4", "ValueError", "each@4"),
    ]


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_batches_are_small_where_items_leave_much_to_the_loop(
    make_runner: MakeRunner,
) -> None:
    """1c: an activity reports few events of items; the others are found in the store."""
    runs = Runs()

    def item(node_input: int) -> Any:
        runs[node_input] += 1
        yield types.Content(role="user", parts=[types.Part(text="x" * 400_000)])
        yield node_input

    runner = await make_runner(worker_of(item, max_parallel_workers=8))
    rows = await said(runner, "8")
    assert rows[-1] == ends("each@1", list(range(1, 9)))
    assert len([one for one in rows if one.path.startswith("wf@1/each@1/")]) == 16
    assert runs == dict.fromkeys(range(1, 9), 1)


async def test_a_list_that_no_event_can_hold_is_read_from_the_items(
    make_runner: MakeRunner,
) -> None:
    """GR-59: it has no event, and the next node is given all of it."""

    def text(node_input: int) -> str:
        return str(node_input) * 300_000

    def lengths(node_input: list[str]) -> list[int]:
        return [len(one) for one in node_input]

    runner = await make_runner(worker_of(text, lengths))
    rows = await said(runner, "5")
    assert rows[-1] == ends("lengths@1", [300_000] * 5)
    assert [one.path for one in rows if one.path.startswith("wf@1/each@1")] == [
        path for path in (one.path for one in rows) if path.startswith("wf@1/each@1/")
    ]


async def test_a_list_that_no_event_can_hold_is_no_output_of_a_graph(
    make_runner: MakeRunner,
) -> None:
    """It fails its node, and the error says what to do."""

    def text(node_input: int) -> str:
        return str(node_input) * 300_000

    runner = await make_runner(worker_of(text))
    _, error = await fail(runner, "5")
    assert isinstance(error, PayloadTooLargeError)
    assert "at most 1,000,000 fit" in str(error)


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_items_survive_new_workflow_runs_between_batches(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: each runs once, and is counted once; those that are tried again, twice."""
    monkeypatch.setattr(worker, "MAX_BATCH", 3)
    runs = Runs()

    def item(node_input: int) -> int | None:
        runs[node_input] += 1
        if node_input == 5 and runs[5] == 1:
            raise ValueError
        return node_input if node_input % 2 else None

    retry = NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0)
    graph = worker_of(item, max_parallel_workers=3, retry_config=retry)
    limits = Limits(max_history_events=1, max_node_runs=22)
    runner = await make_runner(graph, limits=limits)
    expected = [number if number % 2 else None for number in range(1, 21)]
    assert (await said(runner, "20"))[-1] == ends("each@1", expected)
    assert runs == {number: 2 if number == 5 else 1 for number in range(1, 21)}


async def test_no_item_of_a_batch_begins_once_one_has_asked(make_runner: MakeRunner) -> None:
    """GR-60: they are put off, and counted once; the answer is the output of the one that asked."""
    runs = Runs()

    def item(node_input: int) -> Any:
        runs[node_input] += 1
        return RequestInput(interrupt_id="q1") if node_input == 1 else node_input

    limits = Limits(max_node_runs=5)  # three items, and two nodes
    graph = worker_of(item, max_parallel_workers=1)
    runner = await make_runner(graph, limits=limits)
    assert (await said(runner, "3"))[-1] == asks("each@1/each@1", "q1", "each@1")
    assert runs == {1: 1}
    assert (await reply(runner, answer("q1", "A")))[-1] == ends("each@1", ["A", 2, 3])
    assert runs == {1: 1, 2: 1, 3: 1}


async def test_the_loop_commits_items_of_one_of_several_last_nodes(
    make_runner: MakeRunner,
) -> None:
    """B-29: their events pass through the workflow, each once."""
    runs = Runs()

    def choose(node_input: str) -> Event:
        return Event(output=list(range(1, 31)), actions=EventActions(route="items"))

    def item(node_input: int) -> int:
        runs[node_input] += 1
        return node_input

    each = node(item, name="each", parallel_worker=True)
    edges: list[Any] = [("START", choose, {"items": each, "other": runs.named("other")})]
    rows = await said(await make_runner(Workflow(name="wf", edges=edges)))
    assert rows[-1] == ends("each@1", list(range(1, 31)))
    assert len(rows) == 32
    assert runs == dict.fromkeys(range(1, 31), 1)


async def test_the_code_of_items_may_call_nodes(make_runner: MakeRunner) -> None:
    """GR-61, GR-150: such items have activities of their own."""
    runs = Runs()

    async def item(ctx: Any, node_input: int) -> Any:
        return await ctx.run_node(runs.named("inner"), node_input)

    graph = worker_of(item, rerun_on_resume=True)
    assert (await said(await make_runner(graph), "3"))[-1] == ends("each@1", [1, 2, 3])
    assert runs == {"inner": 3}
