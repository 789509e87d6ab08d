"""Graphs whose nodes fail, ask and run again, in process and on Temporal."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.context.activity import Context
from durable_adk.errors import AgentError, BudgetExceededError, StateSchemaError
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool
from tests.conftest import MakeRunner
from tests.integration.test_graphs import (
    Runs,
    answer,
    answers,
    asks,
    ends,
    fail,
    fails,
    gives,
    log,
    reply,
    said,
)
from tests.support.scripts import USER, send, state
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.replayed

RETRY = NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0)


def graph(*edges: Any, **options: Any) -> Workflow:
    """A graph of edges."""
    return Workflow(name="wf", edges=[*edges], **options)


def same(node_input: Any) -> Any:
    """Give what it is given."""
    return node_input


async def test_a_list_has_the_items_of_its_own_run(make_runner: MakeRunner) -> None:
    """GR-59: an item without output has none, although it had one in an earlier invocation."""
    messages: list[Any] = []

    def items(node_input: str) -> list[int]:
        messages.append(node_input)
        return [1, 2]

    def item(node_input: int) -> int | None:
        return node_input if messages[-1] == "one" else None

    each = node(item, name="each", parallel_worker=True)
    runner = await make_runner(graph(("START", items, each)))
    assert (await said(runner, "one"))[-1] == ends("each@1", [1, 2])
    assert (await said(runner, "two"))[-1] == ends("each@1", [None, None])


async def test_items_may_be_graphs_and_lists(make_runner: MakeRunner) -> None:
    """GR-59, GR-61: what a graph or a worker in a worker is given is an item."""
    inner = ParallelWorker(node=Workflow(name="inner", edges=[("START", same)]))
    runner = await make_runner(graph(("START", inner)))
    assert (await said(runner, '["a", "b"]'))[-1] == ends("inner@1", ["a", "b"])
    twice = ParallelWorker(node=ParallelWorker(node=node(same, name="each")))
    runner = await make_runner(graph(("START", twice)))
    assert (await said(runner, '[["a"], ["b", "c"]]'))[-1].value == [["a"], ["b", "c"]]


async def test_an_id_has_one_open_question(make_runner: MakeRunner) -> None:
    """GR-136: the node that asks under it again fails, before its question is stored."""

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="q1")

    one, two = node(ask, name="one"), node(ask, name="two")
    runner = await make_runner(graph(("START", one), (one, two), max_concurrency=1))
    assert await said(runner) == [asks("one@1", "q1")]
    assert (await reply(runner, answer("q1", 1)))[-1] == asks("two@1", "q1")
    runner = await make_runner(graph(("START", (one, two), JoinNode(name="both"))))
    rows, error = await fail(runner)
    assert isinstance(error, AgentError)
    assert "asks with the id 'q1', for which another node waits" in str(error)
    assert sum(found.error is None for found in rows if found.path) <= 2


async def test_a_refused_question_takes_no_id(make_runner: MakeRunner) -> None:
    """GR-136: the next attempt may ask under the ids that the refused one had beside the open."""

    def first(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="q1")

    async def second(ctx: Any) -> AsyncGenerator[Any, None]:
        yield RequestInput(interrupt_id="q2")
        if ctx.attempt_count == 1:
            yield RequestInput(interrupt_id="q1")

    nodes = (first, node(second, retry_config=RETRY))
    runner = await make_runner(
        graph(("START", nodes), (nodes, JoinNode(name="both")), max_concurrency=1)
    )
    assert await said(runner) == [
        asks("first@1", "q1", branch="first@1"),
        fails("second@1", "AgentError", branch="second@1"),
        asks("second@1", "q2", branch="second@1"),
    ]


async def test_a_graph_that_is_tried_again_keeps_what_has_ended(make_runner: MakeRunner) -> None:
    """GR-114, B-4: in graphs in it, too; an answered question is not asked again."""
    runs = Runs()

    def ask(node_input: Any) -> RequestInput:
        runs["ask"] += 1
        return RequestInput(interrupt_id="q1")

    def silent(node_input: Any) -> None:
        runs["silent"] += 1

    def breaks(ctx: Context, node_input: Any) -> str:
        runs["breaks"] += 1
        assert ctx.attempt_count == 1
        if runs["breaks"] < 3:
            raise LookupError
        return "ok"

    steps = (runs.named("first"), ask, silent, breaks)
    inmost = Workflow(name="inmost", edges=[("START", *steps)])
    retry = NodeRetryConfig(max_attempts=3, initial_delay=0, jitter=0)
    inner = Workflow(name="inner", edges=[("START", inmost)], retry_config=retry)
    runner = await make_runner(graph(("START", inner, runs.named("end"))))
    assert (await said(runner))[-1].path == "wf@1/inner@1/inmost@1/ask@1"
    rows = await reply(runner, answer("q1", 7))
    assert [(one.path.rpartition("/")[2], one.error) for one in rows] == [
        ("ask@1", None),
        ("breaks@1", "LookupError"),
        ("breaks@1", "LookupError"),
        ("breaks@1", None),
        ("end@1", None),
    ]
    assert runs == {"first": 1, "ask": 1, "silent": 1, "breaks": 3, "end": 1}


async def test_a_failed_attempt_asks_nothing(make_runner: MakeRunner) -> None:
    """GR-110: the next attempt runs at once, and what the first one has changed is kept."""

    async def asking(ctx: Any) -> AsyncGenerator[Any, None]:
        if ctx.attempt_count == 1:
            ctx.state["first"] = True
            yield RequestInput(interrupt_id="q1")
            raise ValueError
        yield "second"

    runner = await make_runner(graph(("START", node(asking, retry_config=RETRY))))
    assert await said(runner) == [
        fails("asking@1", "ValueError", delta={"first": True}),
        ends("asking@1", "second"),
    ]
    assert await runner.pending(**USER) == []
    assert await state(runner) == {"first": True}


async def test_a_dropped_output_leaves_its_changes(make_runner: MakeRunner) -> None:
    """GR-84, GR-111: the event of the failure has them."""

    async def early(ctx: Any) -> AsyncGenerator[Any, None]:
        ctx.state["before"] = 1
        yield "output"
        raise ValueError

    runner = await make_runner(graph(("START", early)))
    rows, _ = await fail(runner)
    assert rows[0] == fails("early@1", "ValueError", delta={"before": 1})
    assert await state(runner) == {"before": 1}


async def test_answers_of_one_message_come_together(make_runner: MakeRunner) -> None:
    """GR-134, GR-137: the node runs again once, with both."""
    seen: list[Any] = []

    @node(rerun_on_resume=True)
    async def two(ctx: Any) -> AsyncGenerator[Any, None]:
        seen.append(dict(ctx.resume_inputs))
        for name in ("qa", "qb"):
            if name not in ctx.resume_inputs:
                yield RequestInput(interrupt_id=name)
        if len(ctx.resume_inputs) == 2:
            yield "done"

    runner = await make_runner(graph(("START", two)))
    assert await said(runner) == [asks("two@1", "qa"), asks("two@1", "qb")]
    both = answers(qa={"result": 1}, qb={"result": 2})
    assert await reply(runner, both) == [ends("two@1", "done")]
    assert seen == [{}, {"qa": 1, "qb": 2}]


async def test_a_node_that_waits_leaves_its_place(make_runner: MakeRunner) -> None:
    """GR-11: `max_concurrency` counts the nodes that run."""

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="q1")

    other = node(same, name="other")
    edges = ("START", (node(ask, name="ask"), other), JoinNode(name="both"))
    runner = await make_runner(graph(edges, max_concurrency=1))
    assert [found.path for found in await said(runner)] == ["wf@1/ask@1", "wf@1/other@1"]
    rows = await reply(runner, answer("q1", "A"))
    assert rows[0] == gives("ask@1", "A", "ask@1")


async def test_a_loop_without_end_is_ended(make_runner: MakeRunner) -> None:
    """GR-66: also one that calls no model and takes no time."""

    def again(ctx: Any) -> None:
        ctx.route = "again"

    runner = await make_runner(
        graph(("START", again, {"again": again})), limits=Limits(max_node_runs=5)
    )
    rows, error = await fail(runner)
    assert isinstance(error, BudgetExceededError)
    assert [found.path for found in rows if found.path] == [f"wf@1/again@{n}" for n in range(1, 6)]


async def test_agents_that_run_others_give_no_output(make_runner: MakeRunner) -> None:
    """GR-64: the agents in it see the message, and what follows is given None."""
    models = [ScriptedModel(replies=["one"]), ScriptedModel(replies=["two"])]
    parts = [LlmAgent(name=f"s{n}", model=model) for n, model in enumerate(models)]
    given: list[Any] = []

    def after(node_input: Any) -> str:
        given.append(node_input)
        return "after"

    sequence = SequentialAgent(name="sequence", sub_agents=list(parts))
    runner = await make_runner(graph(("START", node(same, name="first"), sequence, after)))
    rows = await said(runner)
    assert [(found.author, found.path, found.value) for found in rows] == [
        ("wf", "wf@1/first@1", "hi"),
        ("s0", "wf@1/sequence@1", "one"),
        ("s1", "wf@1/sequence@1", "two"),
        ("wf", "wf@1/after@1", "after"),
    ]
    assert given == [None]
    assert await log(runner) == rows


class Counted(BaseModel):
    """What the nodes of a graph may write."""

    n: int = 0


@pytest.mark.parametrize("inner", [None, BaseModel])
async def test_a_state_schema_is_that_of_all_nodes_in_it(
    make_runner: MakeRunner, inner: type[BaseModel] | None
) -> None:
    """GR-200: unless one has its own; keys with a prefix are free, and values are not converted."""

    def write(ctx: Context) -> list[str]:
        refused: list[str] = []
        for key, value in (("n", 1), ("m", 1), ("n", "x"), ("user:m", 1)):
            try:
                ctx.state[key] = value
            except StateSchemaError as error:
                refused.append(str(error).partition(" (")[0])
        with pytest.raises(StateSchemaError):
            ctx.state.update({"n": 2, "m": 1})
        return refused

    within = Workflow(name="within", edges=[("START", write)], state_schema=inner)
    runner = await make_runner(graph(("START", within), state_schema=Counted))
    (row,) = await said(runner)
    schema, fields = ("BaseModel", []) if inner else ("Counted", ["n"])
    missing = f"is not declared in state schema '{schema}'. Declared fields: {fields}"
    wrong = "Value for 'n' does not satisfy field 'n'"
    if inner:
        assert row.value == [f"Key '{key}' {missing}" for key in ("n", "m", "n")]
        assert row.delta == {"user:m": 1}
    else:
        assert row.value == [f"Key 'm' {missing}", wrong]
        assert row.delta == {"n": 1, "user:m": 1}


async def test_an_event_that_does_not_fit_the_state_schema_fails_its_node(
    make_runner: MakeRunner,
) -> None:
    """GR-200: and changes nothing."""

    def write(ctx: Context) -> Event:
        ctx.state["n"] = 1
        return Event(output=1, state={"m": 1})

    runner = await make_runner(graph(("START", write), state_schema=Counted))
    rows, error = await fail(runner)
    assert rows == [fails("write@1", "StateSchemaError", delta={"n": 1})]
    assert isinstance(error, StateSchemaError)
    assert await state(runner) == {"n": 1}


class Seeing(BasePlugin):
    """Notes its hooks in the state; answers calls of the tool `double` itself."""

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        invocation_context.state["seen"] = ["message"]

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        invocation_context.state["seen"] = [*invocation_context.state["seen"], "run"]

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
        noted = [*invocation_context.state["seen"], f"{event.author} {event.output}"]
        invocation_context.state["seen"] = noted

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        tool_args["n"] += 1
        return 0 if tool.name == "double" else None

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> Any:
        call = bool(tool_context.function_call_id)
        return [tool_context.agent_name, tool.name, tool_args["n"], result, call]

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception
    ) -> Any:
        return str(error)


async def test_plugins_see_the_runs_of_graphs(make_runner: MakeRunner) -> None:
    """GR-55, GR-89: also those of a graph in the graph, and tools that are nodes."""

    def one(node_input: str) -> dict[str, int]:
        return {"n": 1}

    def double(n: int) -> int:
        return 2 * n

    def fails(n: int) -> int:
        raise ValueError(f"not {n}")

    inner = Workflow(name="inner", edges=[("START", one)])
    tools = (FunctionTool(double), FunctionTool(fails))
    root = graph(("START", inner, tools, JoinNode(name="both")))
    runner = await make_runner(root, plugins=[Seeing(name="seeing")])
    rows = await said(runner)
    results = {"double": ["wf", "double", 2, 0, True], "fails": ["wf", "fails", 2, "not 2", True]}
    assert rows[-1].value == results
    seen = (await state(runner))["seen"]
    assert seen[:2] == ["message", "run"]
    assert "inner {'n': 1}" in seen
    assert seen[-1] == f"wf {results}"


@pytest.mark.parametrize("make_runner", ["temporal", "temporal-ahead"], indirect=True)
@pytest.mark.parametrize("history", [1, 12])
async def test_graphs_are_retried_across_workflow_runs(
    history: int, make_runner: MakeRunner
) -> None:
    """GR-114, D10: a graph that fails ends the one in it, which is committing, and begins anew."""
    runs = Counter[str]()

    def flaky(name: str, failures: int) -> Any:
        def work(node_input: Any) -> str:
            runs[name] += 1
            if runs[name] <= failures:
                raise ValueError(name)
            return name

        return node(work, name=name)

    soon = NodeRetryConfig(max_attempts=4, initial_delay=0.01, jitter=0)
    most = Workflow(name="most", edges=[("START", flaky("a", 0), flaky("b", 1))], retry_config=soon)
    sides: Any = (most, flaky("c", 2))
    inner = Workflow(
        name="inner",
        edges=[("START", flaky("first", 0), sides, JoinNode(name="j"))],
        retry_config=soon,
    )
    root = Workflow(name="wf", edges=[("START", inner)])
    runner = await make_runner(root, limits=Limits(max_history_events=history))
    async with asyncio.timeout(PATIENCE):
        events = await send(runner)
    assert events[-1].output == {"most": "b", "c": "c"}
    assert (runs["first"], runs["c"]) == (1, 3)
