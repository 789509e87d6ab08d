"""Graphs several of whose steps have one activity."""

import asyncio
import uuid
from collections import Counter
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.client import workflow_id
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from tests.conftest import AHEAD, MakeRunner
from tests.integration.test_graphs import KEY, Runs, ends, fails, gives, row
from tests.support.scripts import call, send

pytestmark = [
    pytest.mark.replayed,
    pytest.mark.parametrize("make_runner", ["temporal-ahead"], indirect=True),
]


async def run(runner: Runner, client: Client, message: str = "hi") -> tuple[list[Any], Any]:
    """The rows of an invocation, and how many activities of each type it has scheduled."""
    name = uuid.uuid4().hex
    rows = [row(event) for event in await send(runner, message, invocation_id=name)]
    history = await client.get_workflow_handle(workflow_id(KEY, name)).fetch_history()
    scheduled = [one.activity_task_scheduled_event_attributes for one in history.events]
    return rows, Counter(one.activity_type.name for one in scheduled if one.activity_type.name)


async def test_a_chain_of_functions_and_agents_takes_one_activity(
    make_runner: MakeRunner, client: Client
) -> None:
    """D14: also the calls of the agent's model and tools."""

    def look(where: str) -> str:
        return f"seen {where}"

    runs = Runs()
    model = ScriptedModel(replies=[call("look", where="up"), "Nothing."])
    agent = LlmAgent(name="agent", model=model, tools=[look])
    nodes = [runs.named("a", "A"), runs.named("b", "B"), agent, runs.named("c")]
    runner = await make_runner(Workflow(name="wf", edges=[("START", *nodes)]))
    rows, activities = await run(runner, client)
    assert rows[-1] == ends("c@1", "Nothing.")
    assert runs == {"a": 1, "b": 1, "c": 1}
    assert activities == {"run_steps": 1}


async def test_a_loop_takes_one_activity_in_so_many_steps(
    make_runner: MakeRunner, client: Client
) -> None:
    """GR-71: the runs have the numbers that they have without it."""

    def inc(ctx: Any, node_input: Any) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.route = "again" if ctx.state["n"] < 3 * AHEAD else "done"
        return ctx.state["n"]

    def done(node_input: int) -> int:
        return node_input

    edges: list[Any] = [("START", inc, {"again": inc, "done": done})]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    rows, activities = await run(runner, client)
    assert [one.path for one in rows] == [
        *(f"wf@1/inc@{number}" for number in range(1, 3 * AHEAD + 1)),
        "wf@1/done@1",
    ]
    assert activities == {"run_steps": 4}


async def test_nodes_side_by_side_have_activities_side_by_side(
    make_runner: MakeRunner, client: Client
) -> None:
    """The batch ends before them: each waits for the other one to begin."""
    begun = {"x": asyncio.Event(), "y": asyncio.Event()}

    async def x(node_input: str) -> str:
        begun["x"].set()
        await begun["y"].wait()
        return "x"

    async def y(node_input: str) -> str:
        begun["y"].set()
        await begun["x"].wait()
        return "y"

    runs = Runs()
    edges: list[Any] = [("START", runs.named("a", "A"), (x, y), runs.named("z"))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    rows, activities = await run(runner, client)
    assert {one.path for one in rows[1:3]} == {"wf@1/x@1", "wf@1/y@1"}
    assert activities["run_node"] >= 2
    assert runs == {"a": 1, "z": 2}


async def test_a_delay_before_an_attempt_is_a_timer(
    make_runner: MakeRunner, client: Client
) -> None:
    """GR-110: the delay holds no activity, and lasts once."""
    runs = Runs()

    def flaky(ctx: Any, node_input: str) -> str:
        runs["flaky"] += 1
        if ctx.attempt_count < 3:
            raise ValueError
        return f"{ctx.attempt_count}"

    retry = NodeRetryConfig(max_attempts=3, initial_delay=0.2, backoff_factor=1, jitter=0)
    nodes = [runs.named("a", "A"), node(flaky, retry_config=retry), runs.named("z")]
    runner = await make_runner(Workflow(name="wf", edges=[("START", *nodes)]))
    rows, activities = await run(runner, client)
    assert rows == [
        gives("a@1", "A"),
        fails("flaky@1", "ValueError"),
        fails("flaky@1", "ValueError"),
        gives("flaky@1", "3"),
        ends("z@1", "3"),
    ]
    assert runs == {"a": 1, "flaky": 3, "z": 1}
    assert activities == {"run_steps": 3}


async def test_what_the_loop_ends_in_time_has_no_batch(
    make_runner: MakeRunner, client: Client
) -> None:
    """GR-113: the timer is the workflow's."""
    runs = Runs()
    inner = Workflow(name="inner", timeout=60, edges=[("START", runs.named("x"), runs.named("y"))])
    nodes = [runs.named("a", "A"), inner, runs.named("z"), runs.named("last")]
    runner = await make_runner(Workflow(name="wf", edges=[("START", *nodes)]))
    rows, activities = await run(runner, client)
    assert rows[-1] == ends("last@1", "A")
    assert activities == {"run_steps": 2, "run_node": 2}
