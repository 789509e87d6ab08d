"""Nodes whose code calls other nodes, in process and on Temporal."""

import asyncio
import uuid
from contextlib import suppress
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from durable_adk import Context
from durable_adk.agents import LlmAgent
from durable_adk.client import workflow_id
from durable_adk.errors import (
    AgentDefinitionError,
    BudgetExceededError,
    DynamicNodeFailError,
    StoreUnavailableError,
)
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.plugins import BasePlugin
from durable_adk.sessions import Status
from durable_adk.tools import AgentTool, FunctionTool
from durable_adk.wire.run_config import Budget, RunConfig
from durable_adk.wire.tool_contract import ToolContract
from tests.conftest import MakeRunner
from tests.integration.test_graphs import (
    KEY,
    PER_NODE,
    Row,
    Runs,
    Said,
    answer,
    answers,
    ends,
    fail,
    gives,
    log,
    path_of,
    reply,
    said,
    status,
)
from tests.support.scripts import USER, call, ensure_session, send, state, stored
from tests.support.waiting import until

pytestmark = pytest.mark.replayed


def child(name: str, value: Any, branch: str | None = None, **more: Any) -> Row:
    """The row of an output of a node that the node `parent` has called."""
    path = path_of(f"parent@1/{name}")
    return Row(more.pop("author", "wf"), path, branch, value, [path], **more)


def graph(parent: Any, *after: Any) -> Workflow:
    """A graph that begins with a node that calls others."""
    return Workflow(name="wf", edges=[("START", parent, *after)])


def times_ten(runs: Runs) -> Any:
    """A function that counts its inputs."""

    def work(node_input: int) -> int:
        runs["work", node_input] += 1
        return node_input * 10

    return work


def asking(name: str, call_id: str) -> Any:
    """A function that asks."""

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id=call_id, message="ok?")

    ask.__name__ = name
    return ask


async def test_the_code_runs_once_if_nothing_waits(make_runner: MakeRunner) -> None:
    """GR-92, GR-151, GR-152, GR-160: its messages and its state come where it gives them."""
    runs = Runs()
    work = times_ten(runs)

    @node(rerun_on_resume=True)
    async def parent(ctx: Context, node_input: str) -> Any:
        runs["parent"] += 1
        yield Event(message="starting")
        ctx.state["k"] = 1
        first = await ctx.run_node(work, 1)
        yield Event(message="half")
        yield [first, await ctx.run_node(work, 2)]

    runner = await make_runner(graph(parent, runs.named("last")))
    expected = [
        Row("wf", path_of("parent@1"), None, "starting"),
        child("work@1", 10),
        Row("wf", path_of("parent@1"), None, "half", delta={"k": 1}),
        child("work@2", 20),
        gives("parent@1", [10, 20]),
        ends("last@1", [10, 20]),
    ]
    assert await said(runner) == expected
    assert await log(runner) == expected
    assert runs == {"parent": 1, ("work", 1): 1, ("work", 2): 1, "last": 1}


async def test_a_called_node_asks(make_runner: MakeRunner) -> None:
    """GR-155, GR-156: the code runs again, and what has ended does not."""
    runs = Runs()
    work, ask = times_ten(runs), asking("ask", "q1")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context, node_input: str) -> list[Any]:
        runs["parent"] += 1
        try:
            found = [await ctx.run_node(work, 1), await ctx.run_node(ask)]
        except Exception:  # a pause is none
            runs["caught"] += 1
            raise
        return [*found, await ctx.run_node(work, 2)]

    runner = await make_runner(graph(parent))
    asked = Row("wf", path_of("parent@1/ask@1"), None, [("adk_request_input", "q1")])
    assert await said(runner) == [child("work@1", 10), asked]
    assert await status(runner) is Status.PAUSED
    assert await reply(runner, answer("q1", "yes")) == [
        child("ask@1", "yes"),
        child("work@2", 20),
        ends("parent@1", [10, "yes", 20]),
    ]
    assert runs == {"parent": 2, ("work", 1): 1, ("work", 2): 1}
    assert await status(runner) is Status.COMPLETED


async def test_several_called_nodes_ask_at_once(make_runner: MakeRunner) -> None:
    """GR-155: the siblings of one that waits run to their end, and answers come in any order."""
    runs = Runs()
    work = times_ten(runs)

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        runs["parent"] += 1
        return await asyncio.gather(
            ctx.run_node(asking("a", "qa")),
            ctx.run_node(work, 1),
            ctx.run_node(asking("b", "qb")),
        )

    runner = await make_runner(graph(parent))
    rows = await said(runner)
    assert len(rows) == 3
    assert child("work@1", 10) in rows
    assert await reply(runner, answer("qb", 2)) == [child("b@1", 2)]
    assert await status(runner) is Status.PAUSED
    assert await reply(runner, answer("qa", 1)) == [
        child("a@1", 1),
        ends("parent@1", [1, 10, 2]),
    ]
    assert runs == {"parent": 3, ("work", 1): 1}


async def test_both_answers_come_in_one_message(make_runner: MakeRunner) -> None:
    """GR-137."""

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        return await asyncio.gather(
            ctx.run_node(asking("a", "qa")), ctx.run_node(asking("b", "qb"))
        )

    runner = await make_runner(graph(parent))
    assert len(await said(runner)) == 2
    both = answers(qa={"result": 1}, qb={"result": 2})
    assert (await reply(runner, both))[-1] == ends("parent@1", [1, 2])


async def test_a_called_node_fails(make_runner: MakeRunner) -> None:
    """GR-112, GR-154: its event tells it, once, and the caller gets its exception."""
    runs = Runs()

    def boom(node_input: int) -> None:
        runs["boom"] += 1
        raise KeyError("bad")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> None:
        await ctx.run_node(boom, 1)

    runner = await make_runner(graph(parent))
    rows, error = await fail(runner)
    assert rows == [Row("wf", path_of("parent@1/boom@1"), None, None, error="KeyError")]
    assert isinstance(error, KeyError)
    assert await status(runner) is Status.FAILED


async def test_a_caught_failure_is_remembered(make_runner: MakeRunner) -> None:
    """B-6: the code that runs again after a pause sees the same error, and nothing fails again."""
    runs = Runs()

    def boom(node_input: int) -> None:
        runs["boom"] += 1
        raise ValueError("bad")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        try:
            await ctx.run_node(boom, 1)
        except DynamicNodeFailError as error:
            text = f"{error}: {error.error} at {error.error_node_path}"
        return [text, await ctx.run_node(asking("ask", "q1"))]

    runner = await make_runner(graph(parent))
    assert len(await said(runner)) == 2
    text = "Dynamic node boom failed: bad at wf@1/parent@1/boom@1"
    assert (await reply(runner, answer("q1", 1)))[-1] == ends("parent@1", [text, 1])
    assert runs == {"boom": 1}


async def test_a_retry_of_the_code_repeats_only_what_failed(make_runner: MakeRunner) -> None:
    """GR-115."""
    runs = Runs()
    work = times_ten(runs)

    def flaky(node_input: int) -> str:
        runs["flaky"] += 1
        if runs["flaky"] == 1:
            raise ValueError("bad")
        return "ok"

    @node(
        rerun_on_resume=True,
        retry_config=NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0),
    )
    async def parent(ctx: Context) -> list[Any]:
        return [await ctx.run_node(work, 1), await ctx.run_node(flaky, 1)]

    runner = await make_runner(graph(parent))
    assert await said(runner) == [
        child("work@1", 10),
        Row("wf", path_of("parent@1/flaky@1"), None, None, error="ValueError"),
        child("flaky@1", "ok"),
        ends("parent@1", [10, "ok"]),
    ]
    assert runs == {("work", 1): 1, "flaky": 2}


async def test_an_output_before_a_failed_call_is_none(make_runner: MakeRunner) -> None:
    """GR-115, B-14: the attempt has failed, whatever its code has yielded before."""
    tries: list[int] = []

    def bad(node_input: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no")
        return 1

    @node(
        rerun_on_resume=True,
        retry_config=NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0),
    )
    async def parent(ctx: Context) -> Any:
        yield Event(output="early")
        await ctx.run_node(bad)

    runner = await make_runner(graph(parent))
    rows = await said(runner)
    path = path_of("parent@1")
    outputs = [row.value for row in rows if row.path == path and row.output_for]
    assert outputs == ["early"]


async def test_an_output_of_a_called_node_is_the_codes(make_runner: MakeRunner) -> None:
    """GR-157, B-11: also for the successor."""
    runs = Runs()
    work = times_ten(runs)

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> None:
        await ctx.run_node(work, 4, use_as_output=True)

    runner = await make_runner(graph(parent, runs.named("last")))
    path = path_of("parent@1")
    given = Row("wf", f"{path}/work@1", None, 40, [f"{path}/work@1", path])
    assert await said(runner) == [given, ends("last@1", 40)]


async def test_ids_branches_and_refusals(make_runner: MakeRunner) -> None:
    """GR-150, GR-152, GR-153."""
    runs = Runs()
    work = times_ten(runs)

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        same = [await ctx.run_node(work, 1, run_id="first") for _ in range(2)]
        with pytest.raises(ValueError, match="must contain non-numeric characters"):
            await ctx.run_node(work, 1, run_id="7")
        own = await ctx.run_node(work, 2, use_sub_branch=True)
        return [*same, own]

    async def plain(ctx: Context) -> None:
        with pytest.raises(ValueError, match="must have rerun_on_resume=True"):
            await ctx.run_node(work, 3)

    runner = await make_runner(graph(parent, plain))
    assert await said(runner) == [
        child("work@first", 10),
        child("work@1", 20, "work@1"),
        gives("parent@1", [10, 10, 20]),
    ]
    assert runs == {("work", 1): 1, ("work", 2): 1}


async def test_agents_are_called_in_a_loop(make_runner: MakeRunner) -> None:
    """GR-161: each sees its input only; the state they write is there at once."""
    seen = Said()
    writer = LlmAgent(name="writer", model=seen.model("draft 1", "draft 2"), output_key="draft")
    reviewer = LlmAgent(
        name="reviewer",
        model=seen.model('{"ok": false}', '{"ok": true}'),
        output_schema=dict[str, bool],
    )

    @node(rerun_on_resume=True)
    async def parent(ctx: Context, node_input: str) -> Any:
        note, kept = "", []
        for _ in range(3):
            draft = await ctx.run_node(writer, {"topic": node_input, "note": note})
            kept.append(ctx.state["draft"])
            review = await ctx.run_node(reviewer, draft)
            if review["ok"]:
                break
            note = "better"
        yield Event(output=kept, route="done")

    runner = await make_runner(
        Workflow(name="wf", edges=[("START", parent), (parent, {"done": Runs().named("end")})])
    )
    rows = await said(runner)
    assert [(row.author, row.path, row.value) for row in rows] == [
        ("writer", path_of("parent@1/writer@1"), "draft 1"),
        ("reviewer", path_of("parent@1/reviewer@1"), {"ok": False}),
        ("writer", path_of("parent@1/writer@2"), "draft 2"),
        ("reviewer", path_of("parent@1/reviewer@2"), {"ok": True}),
        ("wf", path_of("parent@1"), ["draft 1", "draft 2"]),
        ("wf", path_of("end@1"), ["draft 1", "draft 2"]),
    ]
    assert await state(runner) == {"draft": "draft 2"}
    assert seen.prompts == [
        ['{"topic": "hi", "note": ""}'],
        ["draft 1"],
        ['{"topic": "hi", "note": "better"}'],
        ["draft 2"],
    ]


async def test_called_nodes_call_others(make_runner: MakeRunner) -> None:
    """GR-160: graphs and callers within callers, with a question at the bottom."""
    runs = Runs()
    work = times_ten(runs)
    inner = Workflow(name="inner", edges=[("START", work, asking("ask", "q1"))])

    @node(rerun_on_resume=True)
    async def middle(ctx: Context, node_input: int) -> list[Any]:
        runs["middle"] += 1
        return [await ctx.run_node(work, 5), await ctx.run_node(inner, node_input)]

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        runs["parent"] += 1
        return await ctx.run_node(middle, 7)

    runner = await make_runner(graph(parent))
    rows = await said(runner)
    assert [row.path for row in rows] == [
        path_of("parent@1/middle@1/work@1"),
        path_of("parent@1/middle@1/inner@1/work@1"),
        path_of("parent@1/middle@1/inner@1/ask@1"),
    ]
    assert (await reply(runner, answer("q1", "yes")))[-1] == ends("parent@1", [50, "yes"])
    assert runs == {("work", 5): 1, ("work", 7): 1, "middle": 2, "parent": 2}


async def test_a_time_limit_of_the_code_ends_a_called_node(make_runner: MakeRunner) -> None:
    """The node is recorded as ended: it does not begin again when the code runs again."""
    runs = Runs()

    async def slow(node_input: Any) -> None:
        runs["slow"] += 1
        await asyncio.Event().wait()

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(0.2):
                await ctx.run_node(slow)
        except (TimeoutError, DynamicNodeFailError):
            return await ctx.run_node(asking("ask", "q1"))

    runner = await make_runner(graph(parent))
    assert len(await said(runner)) == 1
    assert (await reply(runner, answer("q1", 3)))[-1] == ends("parent@1", 3)
    assert runs == {"slow": 1}


async def test_a_node_that_was_not_awaited_fails(make_runner: MakeRunner) -> None:
    """GR-159."""

    def boom(node_input: int) -> None:
        raise KeyError("bad")

    tasks: list[Any] = []

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.run_node(boom, 1)))
        await asyncio.sleep(0)
        return "done"

    runner = await make_runner(graph(parent))
    _, error = await fail(runner)
    assert isinstance(error, KeyError)
    assert [type(task.exception()) for task in tasks] == [DynamicNodeFailError]


@pytest.mark.parametrize("confirmed", [True, False])
async def test_an_agent_that_was_called_asks_for_an_approval(
    confirmed: bool, make_runner: MakeRunner
) -> None:
    """GR-141, B-7: it continues where it waits, with the input it began with."""
    runs, seen = Runs(), Said()

    def danger(city: str) -> dict[str, str]:
        """Do something dangerous."""
        runs["danger"] += 1
        return {"done": city}

    agent = LlmAgent(
        name="ag",
        model=seen.model(call("danger", city="Bonn"), "all done"),
        tools=[FunctionTool(danger, require_confirmation=True)],
    )

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        runs["parent"] += 1
        return await ctx.run_node(agent, {"try": runs["parent"]})

    runner = await make_runner(graph(parent))
    assert len(await said(runner)) >= 2
    (pending,) = await runner.pending(**USER)
    rows = await reply(runner, answers(pending.name, **{pending.call_id: {"confirmed": confirmed}}))
    assert [row.path for row in rows] == [path_of("parent@1/ag@1")] * 2 + [path_of("parent@1")]
    assert rows[-1] == ends("parent@1", "all done")
    assert runs == {"parent": 2} | ({"danger": 1} if confirmed else {})
    assert [prompt[0] for prompt in seen.prompts] == ['{"try": 1}'] * 2


async def test_called_nodes_count_against_the_limits(make_runner: MakeRunner) -> None:
    """The code cannot catch what ends the invocation."""
    seen = Said()
    agent = LlmAgent(name="ag", model=seen.model("text"))

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        found: list[Any] = []
        for number in range(4):
            try:
                found.append(await ctx.run_node(agent, str(number)))
            except Exception:  # noqa: BLE001 - as users write it
                found.append(None)
        return found

    runner = await make_runner(graph(parent))
    await ensure_session(runner)
    config = RunConfig(budget=Budget(model_calls=2))
    with pytest.raises(BudgetExceededError):
        await send(runner, run_config=config)
    assert [row.value for row in await log(runner)][:2] == ["text", "text"]
    assert len(seen.prompts) == 2
    assert await status(runner) is Status.FAILED
    await send(runner, run_config=RunConfig(budget=Budget(model_calls=4)))


@pytest.mark.parametrize("make_runner", ["temporal", "temporal-uncached"], indirect=True)
async def test_calls_are_counted_for_the_result(make_runner: MakeRunner, client: Client) -> None:
    """Also those of a run of the code that ended in a question."""
    seen = Said()
    agent = LlmAgent(name="ag", model=seen.model("text"))

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        await ctx.run_node(agent, "1")
        await ctx.run_node(asking("ask", "q1"))
        return await ctx.run_node(agent, "2", use_as_output=True)

    runner = await make_runner(graph(parent))
    await said(runner)
    (pending,) = await runner.pending(**USER)
    await reply(runner, answer(pending.call_id, 1))
    name = pending.invocation_id
    result = await client.get_workflow_handle(workflow_id(KEY, name)).result()
    assert (result["modelCalls"], result["text"], result["events"]) == (2, "text", 6)
    assert len(await stored(runner)) == 6


async def test_a_cancelled_invocation_cancels_what_runs(make_runner: MakeRunner) -> None:
    """GR-117, GR-118: the called node's `finally` runs."""
    began, ended = asyncio.Event(), asyncio.Event()
    loops: list[Any] = []

    async def slow(node_input: Any) -> None:
        loops.append(asyncio.get_running_loop())
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> None:
        await ctx.run_node(slow)

    runner = await make_runner(graph(parent))
    await ensure_session(runner)
    name = f"e-{uuid.uuid4()}"
    run = asyncio.create_task(send(runner, invocation_id=name))
    await until(began.is_set)
    await runner.cancel(**USER, invocation_id=name)
    await asyncio.gather(run, return_exceptions=True)
    await until(ended.is_set)
    assert await status(runner) is Status.CANCELLED


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_caller_costs_as_much_history_as_any_node(
    make_runner: MakeRunner, client: Client
) -> None:
    """D4: however many nodes it calls."""
    work, name = times_ten(Runs()), f"e-{uuid.uuid4()}"

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        return [await ctx.run_node(work, number) for number in range(20)]

    def last(node_input: Any) -> Any:
        return node_input

    runner = await make_runner(graph(parent, last))
    await send(runner, invocation_id=name)
    history = await client.get_workflow_handle(workflow_id(KEY, name)).fetch_history()
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    starts = [event.event_id for event in history.events if event.event_type == scheduled]
    assert starts[-1] - starts[-2] <= PER_NODE


async def test_an_agent_that_was_called_uses_another_as_a_tool(make_runner: MakeRunner) -> None:
    """OPEN-6: it has a session of its own, and its calls count."""
    seen = Said()
    helper = LlmAgent(name="helper", model=seen.model("helped"), description="Helps.")
    agent = LlmAgent(
        name="ag",
        model=seen.model(call("helper", request="please"), "all done"),
        tools=[AgentTool(helper)],
    )

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        return await ctx.run_node(agent, "go")

    runner = await make_runner(graph(parent))
    rows = await said(runner)
    assert [row.value for row in rows] == [
        [("helper", rows[0].value[0][1])],
        [{"result": "helped"}],
        "all done",
        "all done",
    ]
    assert seen.prompts[1] == ["please"]


async def test_items_of_a_called_worker_run(make_runner: MakeRunner) -> None:
    """GR-61, GR-151: a parallel worker may be called, also with agents."""
    seen = Said()
    agent = LlmAgent(name="ag", model=seen.model("text"), parallel_worker=True)

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        each = node(times_ten(Runs()), parallel_worker=True)
        return [await ctx.run_node(each, [1, 2]), await ctx.run_node(agent, ["a", "b"])]

    runner = await make_runner(graph(parent))
    rows = await said(runner)
    assert rows[-1] == ends("parent@1", [[10, 20], ["text", "text"]])
    assert path_of("parent@1/work@1/work@2") in [row.path for row in rows]


async def test_the_state_is_kept_around_calls(make_runner: MakeRunner) -> None:
    """GR-84, GR-161: lists that the code holds, and what it has read, stay its own."""

    def bump(ctx: Context, node_input: int) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + node_input
        return node_input

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        items = ctx.state.setdefault("items", [])
        first = ctx.state.get("n", 0)
        for number in range(1, 4):
            items.append(await ctx.run_node(bump, number))
        yield Event(message="half")
        await ctx.run_node(bump, 10)
        yield [first, ctx.state["n"], ctx.state["items"]]

    runner = await make_runner(graph(parent))
    assert (await said(runner))[-1] == ends("parent@1", [0, 16, [1, 2, 3]])
    assert await state(runner) == {"items": [1, 2, 3], "n": 16}


async def test_a_pause_does_not_cancel_what_runs_beside_it(make_runner: MakeRunner) -> None:
    """GR-155: also if the code's own tasks are cancelled for it."""
    runs = Runs()

    async def slow(node_input: Any) -> str:
        runs["slow"] += 1
        await asyncio.sleep(0)
        return "slow"

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(ctx.run_node(asking("ask", "q1"))),
                group.create_task(ctx.run_node(slow)),
            ]
        return [task.result() for task in tasks]

    runner = await make_runner(graph(parent))
    await said(runner)
    assert (await reply(runner, answer("q1", 1)))[-1] == ends("parent@1", [1, "slow"])
    assert runs == {"slow": 1}


async def test_what_the_code_cancelled_is_late_again(make_runner: MakeRunner) -> None:
    """When it runs again, it gets a TimeoutError at once."""

    async def slow(node_input: Any) -> None:
        await asyncio.Event().wait()

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(0.2):
                await ctx.run_node(slow)
        except TimeoutError:
            return await ctx.run_node(asking("ask", "q1"))

    runner = await make_runner(graph(parent))
    assert len(await said(runner)) == 1
    assert (await reply(runner, answer("q1", 3)))[-1] == ends("parent@1", 3)


async def test_calls_that_are_refused(make_runner: MakeRunner) -> None:
    """GR-157, B-18: the code gets the reason, and ends."""
    work = times_ten(Runs())

    async def pay(amount: int) -> None:
        """Pay once."""

    tool = FunctionTool(pay, contract=ToolContract.AT_MOST_ONCE)

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> None:
        await ctx.run_node(work, 1, use_as_output=True)
        with pytest.raises(ValueError, match="already has a use_as_output delegate"):
            await ctx.run_node(work, 2, use_as_output=True)
        with pytest.raises(ValueError, match="non-numeric"):
            await ctx.run_node(work, 2, run_id=5)  # pyright: ignore[reportArgumentType]
        with pytest.raises(AgentDefinitionError, match="at_most_once"):
            await ctx.run_node(tool, {"amount": 1})

    runner = await make_runner(graph(parent))
    path = path_of("parent@1")
    given = Row("wf", f"{path}/work@1", None, 10, [f"{path}/work@1", path, "wf@1"])
    assert await said(runner) == [given]


async def test_two_called_nodes_do_not_ask_with_one_id(make_runner: MakeRunner) -> None:
    """B-18."""

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        return await asyncio.gather(ctx.run_node(asking("a", "q")), ctx.run_node(asking("b", "q")))

    runner = await make_runner(graph(parent))
    _, error = await fail(runner)
    assert "asks with the id 'q'" in str(error)


async def test_messages_are_stored_once(make_runner: MakeRunner) -> None:
    """Also if the next attempt of the code says them again, and a plugin sees each."""
    seen: list[str | None] = []
    runs = Runs()

    class Watching(BasePlugin):
        async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
            if event.node_info.path == path_of("parent@1"):
                seen.append(event.text)

    def bad(node_input: int) -> None:
        raise ValueError("no")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        runs["parent"] += 1
        yield Event(message="one")
        with suppress(DynamicNodeFailError):
            await ctx.run_node(bad, 1)
        if runs["parent"] == 1:
            raise StoreUnavailableError("again")
        yield Event(output="done")

    runner = await make_runner(graph(parent), plugins=[Watching(name="watching")])
    rows = await said(runner)
    assert [(row.path, row.value or row.error) for row in rows] == [
        (path_of("parent@1"), "one"),
        (path_of("parent@1/bad@1"), "ValueError"),
        (path_of("parent@1"), "done"),
    ]
    assert seen[:1] == ["one"]
    assert runs == {"parent": 2}
