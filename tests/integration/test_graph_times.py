"""The times of a graph's nodes: what counts, and what they hold back."""

import asyncio
import time
import uuid
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.client import workflow_id
from durable_adk.errors import NodeTimeoutError
from durable_adk.events.request_input import RequestInput
from durable_adk.flows.graph.timer import NodeTimer
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.wire.graph.node_run import NodeRef, NodeRun
from tests.conftest import MakeRunner
from tests.integration.test_graphs import (
    KEY,
    OFTEN,
    Row,
    Runs,
    answer,
    ends,
    fails,
    log,
    reply,
    said,
)
from tests.support.scripts import USER, ensure_session
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.replayed

SECONDS = 4.0


async def waits_for_longer(make_runner: MakeRunner, **options: Any) -> None:
    """Answer a question in a graph later than its time would allow, and have the rest go by."""

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="q1")

    async def long(node_input: Any) -> None:
        await asyncio.sleep(60)

    inner = Workflow(name="inner", timeout=SECONDS, edges=[("START", ask, long)])
    runner = await make_runner(Workflow(name="wf", edges=[("START", inner)]), **options)
    path = "wf@1/inner@1/ask@1"
    assert await said(runner) == [Row("inner", path, None, [("adk_request_input", "q1")])]
    await asyncio.sleep(SECONDS)  # it is over, if it runs
    with pytest.raises(NodeTimeoutError, match="Node 'inner' timed out after 4 seconds"):
        await reply(runner, answer("q1", "yes"))
    assert (await log(runner))[1:3] == [
        Row("inner", path, None, "yes", [path]),
        fails("inner@1", "NodeTimeoutError"),
    ]


async def test_time_that_a_node_waits_for_a_person_does_not_count(make_runner: MakeRunner) -> None:
    """GR-113: what is left counts on after the answer."""
    await waits_for_longer(make_runner)


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_what_is_left_of_its_time_survives_new_workflow_runs(
    make_runner: MakeRunner,
) -> None:
    """D10, GR-113: it neither begins again nor counts meanwhile."""
    await waits_for_longer(make_runner, limits=OFTEN)


async def test_a_timer_stands_while_all_branches_wait() -> None:
    """GR-113: and has the rest again when one of them goes on."""
    now, run = [100.0], NodeRun(run_id=1, input=NodeRef())
    timer = NodeTimer(run, 10.0, lambda: now[0])
    async with timer.limit:
        timer.start()
        timer.count(1)
        now[0] = 104.0
        timer.count(-1)
        assert (run.due, run.left) == (110.0, None)
        timer.count(-1)
        assert (run.due, run.left, timer.limit.when()) == (None, 6.0, None)
        now[0] = 1000.0
        timer.count(1)
        assert (run.due, run.left) == (1006.0, None)
        again = NodeTimer(run.model_copy(), 10.0, lambda: now[0])
        async with again.limit:
            again.start()
            left = (again.limit.when() or 0.0) - asyncio.get_running_loop().time()
        assert left == pytest.approx(6.0, abs=1.0)
    timer.end()
    assert (run.due, run.left) == (None, None)


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_delay_holds_no_new_workflow_run_back(
    make_runner: MakeRunner, client: Client
) -> None:
    """D10, GR-110: the position says when the next attempt begins."""
    retry = NodeRetryConfig(max_attempts=2, initial_delay=3000, max_delay=9000, jitter=0)

    @node(retry_config=retry)
    def fragile(node_input: Any) -> None:
        raise ValueError

    def steps(ctx: Any) -> None:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.route = "again" if ctx.state["n"] < 9 else "done"

    runs, name = Runs(), f"e-{uuid.uuid4()}"
    last = runs.named("last")
    edges: list[Any] = [("START", (fragile, steps)), (steps, {"again": steps, "done": last})]
    runner = await make_runner(Workflow(name="wf", edges=edges), limits=OFTEN)
    await ensure_session(runner)

    async def talk() -> None:
        async for _ in runner.run_async(**USER, new_message="hi", invocation_id=name):
            pass

    talking = asyncio.create_task(talk())
    async with asyncio.timeout(PATIENCE):
        await until(lambda: runs["last"])
        found = client.list_workflows(f"WorkflowId = '{workflow_id(KEY, name)}'")
        assert len([run async for run in found]) > 3
        await runner.cancel(**USER, invocation_id=name)
    await asyncio.gather(talking, return_exceptions=True)


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_delay_is_kept_over_new_workflow_runs(make_runner: MakeRunner) -> None:
    """D10, GR-110: it neither begins again nor ends with the workflow run."""
    starts: list[float] = []

    @node(retry_config=NodeRetryConfig(max_attempts=2, initial_delay=2, jitter=0))
    def flaky(node_input: Any) -> str:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise ValueError
        return "second"

    runner = await make_runner(Workflow(name="wf", edges=[("START", flaky)]), limits=OFTEN)
    assert await said(runner) == [fails("flaky@1", "ValueError"), ends("flaky@1", "second")]
    assert 2 <= starts[1] - starts[0] < PATIENCE
