"""Tools that are nodes of a graph: plugins' callbacks, and calls that wait for their response."""

from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.errors import InvalidRequestError
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import Status
from durable_adk.tools import FunctionTool, LongRunningFunctionTool, request_input
from tests.conftest import MakeRunner
from tests.integration.test_graphs import (
    OFTEN,
    Row,
    answer,
    answers,
    ends,
    fail,
    fails,
    log,
    path_of,
    reply,
    said,
    status,
)
from tests.support.scripts import USER, call, stored
from tests.support.waiting import until

pytestmark = pytest.mark.replayed


async def test_a_model_asks_the_user(make_runner: MakeRunner) -> None:
    """GR-2: by a tool; an answer that does not fit the model's schema is refused."""
    asked = call("adk_request_input", message="How many?", response_schema={"type": "integer"})
    model = ScriptedModel(replies=[asked, "two"])
    agent = LlmAgent(name="a", model=model, tools=[request_input])
    runner = await make_runner(Workflow(name="wf", edges=[("START", agent)]))
    await said(runner)
    (waiting,) = await runner.pending(**USER)
    with pytest.raises(InvalidRequestError):
        await reply(runner, answer(waiting.call_id, "many"))
    assert (await reply(runner, answer(waiting.call_id, 2)))[-1].value == "two"
    (given,) = [one for event in await stored(runner) for one in event.get_function_responses()]
    assert given.response == {"result": 2}


class Watching(BasePlugin):
    """Notes the calls of tools, and answers some of them."""

    def __init__(self, before: Any = None, after: Any = None, recovers: Any = None) -> None:
        super().__init__(name="watching")
        self.seen: list[Any] = []
        self.answers = {"before": before, "after": after, "error": recovers}

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        """Note it; the arguments may be changed."""
        assert tool_context.function_call_id
        self.seen.append(("before", tool.name, dict(tool_args)))
        tool_args["n"] = tool_args.get("n", 0) + 1
        return self.answers["before"]

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> Any:
        """Note it."""
        self.seen.append(("after", tool.name, result))
        return self.answers["after"]

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception
    ) -> Any:
        """Note it."""
        self.seen.append(("error", tool.name, type(error).__name__))
        return self.answers["error"]


def double(n: int) -> dict[str, int]:
    """Double a number."""
    if n > 100:
        raise ValueError
    return {"n": 2 * n}


async def ended(runner: Runner) -> bool:
    """Whether the newest invocation is over."""
    return await status(runner) is Status.COMPLETED


def graph(tool: Any) -> Workflow:
    """A tool that is given the message, and a function."""
    return Workflow(
        name="wf", edges=[("START", tool, node(lambda node_input: node_input, name="z"))]
    )


BEFORE = ("before", "double", {"n": 4})


@pytest.mark.parametrize(
    ("plugin", "output", "seen"),
    [
        (Watching(), {"n": 10}, [BEFORE, ("after", "double", {"n": 10})]),
        (Watching(before={"a": 1}), {"a": 1}, [BEFORE, ("after", "double", {"a": 1})]),
        (Watching(after={"b": 1}), {"b": 1}, [BEFORE, ("after", "double", {"n": 10})]),
    ],
    ids=["none", "before", "after"],
)
@pytest.mark.parametrize("make_runner", ["local", "temporal"], indirect=True)
async def test_plugins_see_the_call_of_a_tool_node(
    make_runner: MakeRunner, plugin: Watching, output: Any, seen: list[Any]
) -> None:
    """GR-55, GR-89: as of a tool that a model calls."""
    plugin.seen.clear()
    runner = await make_runner(graph(FunctionTool(double)), plugins=[plugin])
    assert (await said(runner, '{"n": 4}'))[-1] == ends("z@1", output)
    assert plugin.seen == seen


@pytest.mark.parametrize("recovers", [None, {"instead": True}])
@pytest.mark.parametrize("make_runner", ["local", "temporal"], indirect=True)
async def test_plugins_see_the_error_of_a_tool_node(make_runner: MakeRunner, recovers: Any) -> None:
    """GR-55: one may give a result instead."""
    plugin = Watching(recovers=recovers)
    runner = await make_runner(graph(FunctionTool(double)), plugins=[plugin])
    if recovers is None:
        rows, _ = await fail(runner, '{"n": 200}')
        assert rows[0] == fails("double@1", "ValueError")
    else:
        assert (await said(runner, '{"n": 200}'))[-1] == ends("z@1", recovers)
    assert ("error", "double", "ValueError") in plugin.seen


# ----- long-running tools


class Orders:
    """A tool whose result comes later."""

    def __init__(self, interim: Any) -> None:
        self.interim = interim
        self.orders: list[str] = []

    def order(self, item: str) -> Any:
        """Order it."""
        self.orders.append(item)
        return self.interim


@pytest.mark.parametrize("interim", [None, {"status": "pending"}])
async def test_a_long_running_tool_waits_for_its_response(
    make_runner: MakeRunner, interim: Any
) -> None:
    """B-23: its response is the output, and it is called once."""
    orders = Orders(interim)
    runner = await make_runner(graph(LongRunningFunctionTool(orders.order)))
    rows = await said(runner, "tea")
    (waiting,) = await runner.pending(**USER)
    name = waiting.call_id
    assert (waiting.name, waiting.args) == ("order", {"item": "tea"})
    asked = [Row("wf", path_of("order@1"), None, [("order", name)])]
    told = [] if interim is None else [Row("wf", path_of("order@1"), None, [interim])]
    assert rows == asked + told
    last = await reply(runner, answers("order", **{name: {"result": "shipped"}}))
    assert [(one.path, one.value) for one in last] == [
        (path_of("order@1"), "shipped"),
        (path_of("z@1"), "shipped"),
    ]
    assert await log(runner) == rows + last
    assert orders.orders == ["tea"]


async def test_a_long_running_tool_that_fails_does_not_wait(make_runner: MakeRunner) -> None:
    """B-23: an error is its only response."""
    orders = Orders({"error": "sold out"})
    runner = await make_runner(graph(LongRunningFunctionTool(orders.order)))
    assert (await said(runner, "tea"))[-1] == ends("z@1", {"error": "sold out"})


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_response_comes_after_new_workflow_runs(make_runner: MakeRunner) -> None:
    """D10, B-23: also to one of a worker's items, whose others go on."""
    orders = Orders({"status": "pending"})
    each = node(LongRunningFunctionTool(orders.order), parallel_worker=True)
    runner = await make_runner(Workflow(name="wf", edges=[("START", each)]), limits=OFTEN)
    await said(runner, '["tea", "milk"]')
    waiting = {one.args["item"]: one.call_id for one in await runner.pending(**USER)}
    await reply(runner, answers("order", **{waiting["milk"]: {"result": "M"}}))
    rows = await reply(runner, answers("order", **{waiting["tea"]: {"result": "T"}}))
    assert rows[-1] == ends("order@1", ["T", "M"])
    assert sorted(orders.orders) == ["milk", "tea"]


async def test_a_deadline_ends_the_wait_of_a_tool(make_runner: MakeRunner) -> None:
    """B-23: as for a tool that a model calls; the node is not tried again."""
    orders = Orders(None)
    tool = LongRunningFunctionTool(orders.order, deadline=1)
    runner = await make_runner(graph(node(tool, retry_config=NodeRetryConfig(initial_delay=0))))
    await said(runner, "tea")
    await until(lambda: ended(runner))
    last = (await log(runner))[-1]
    assert last == ends("z@1", {"error": "No answer came before the deadline; go on without it."})
    assert orders.orders == ["tea"]


async def test_the_model_of_an_agent_node_sees_what_a_deadline_decided(
    make_runner: MakeRunner,
) -> None:
    """B-7: the response is in the prompt, although no user gave it."""
    orders, seen = Orders(None), list[Any]()

    def says(request: LlmRequest) -> Any:
        parts = [part for content in request.contents for part in content.parts or []]
        seen.append([one.function_response.response for one in parts if one.function_response])
        return "done" if seen[-1] else call("order", item="tea")

    tool = LongRunningFunctionTool(orders.order, deadline=1)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=says), tools=[tool])
    runner = await make_runner(graph(agent))
    await said(runner)
    await until(lambda: ended(runner))
    assert seen == [[], [{"error": "No answer came before the deadline; go on without it."}]]
    assert (await log(runner))[-1] == ends("z@1", "done")
