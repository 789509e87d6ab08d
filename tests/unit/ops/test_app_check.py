"""Where the parts of an app run, and what is said of those that cannot be run durably."""

import os
import random
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from temporalio import activity

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.apps import App
from durable_adk.code_executors import BuiltInCodeExecutor
from durable_adk.events import Event
from durable_adk.graph.tool_node import ToolNode
from durable_adk.ops.app_check import AppPart, app_parts
from durable_adk.plugins import BasePlugin
from durable_adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool
from durable_adk.tools.activity_tool import ActivityTool
from durable_adk.tools.base_toolset import BaseToolset
from durable_adk.workflow import BaseNode, JoinNode, RetryConfig, Workflow, node


class Careless(BaseAgent):
    """Its body uses what is not replay-safe, in each way it can be named."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        started = time.time()
        names = [random.random() for _ in range(2)]
        if os.environ.get("HOME"):
            names.clear()
        with open("x") as file:  # noqa: ASYNC230, PTH123
            yield Event(author=self.name, custom_metadata={"x": [started, names, file.name]})


class Careful(BaseAgent):
    """Its body only uses what is replay-safe."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, custom_metadata={"x": time.strftime("%Y")})


class Toolset(BaseToolset):
    """Has no tools."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []


class Screen(BasePlugin):
    """Has no hook."""


def send() -> None:
    """Send."""


def streams() -> Any:
    """Yields, which no tool may."""
    yield 1


@activity.defn(name="charge")
async def charge() -> None:
    """Charge."""


def parts(agent: BaseNode, **options: Any) -> dict[str, AppPart]:
    """The parts of an app by their kinds and names."""
    found = app_parts(App(name="shop", root_agent=agent, **options))
    return {f"{part.kind} {part.name}": part for part in found}


def test_each_tool_is_where_it_runs() -> None:
    """With what its contract promises after a crash."""
    tools: list[Any] = [
        send,
        FunctionTool(send, name="pay", contract="at_most_once", task_queue="payments"),
        LongRunningFunctionTool(send, name="ask"),
        ActivityTool(charge, start_to_close_timeout=10, task_queue="theirs"),  # type: ignore[arg-type]
        AgentTool(LlmAgent(name="helper", model="scripted")),
        Toolset(),
    ]
    found = parts(LlmAgent(name="clerk", model="scripted", tools=tools))
    told = {name: (part.runs_in, part.after_crash) for name, part in found.items()}
    assert told["tool send"] == (
        "activity call_tool",
        "may run again, with the same idempotency key",
    )
    assert told["tool pay"] == (
        "activity call_tool on task queue payments",
        "is not run again; the model learns that the outcome is unknown",
    )
    assert told["tool ask"][1].endswith("then waits for its result without a worker")
    assert told["tool charge"] == (
        "activity charge on task queue theirs",
        "is retried by its own retry policy",
    )
    assert told["tool helper"][0] == "child workflow"
    assert told["toolset Toolset"][0] == "activity call_tool; listed by each worker"
    assert found["agent LlmAgent"].runs_in == "workflow code"
    assert {part.agent for part in found.values()} == {"clerk", "helper"}


def test_a_tool_that_waits_for_approval_says_so() -> None:
    """Always, or as its rule decides."""
    tools: list[Any] = [
        FunctionTool(send, name="pay", require_confirmation=True),
        FunctionTool(send, name="lend", require_confirmation=lambda: False),
    ]
    found = parts(LlmAgent(name="clerk", model="scripted", tools=tools))
    assert found["tool pay"].runs_in == "activity call_tool, once approved"
    assert found["tool lend"].runs_in.endswith("once approved if its rule says so")


def test_callbacks_executors_and_plugins_are_parts() -> None:
    """Each is named as the user has written it."""
    agent = LlmAgent(
        name="clerk",
        model="scripted",
        instruction=lambda _: "Be kind.",
        before_tool_callback=[send],
        code_executor=BuiltInCodeExecutor(),
    )
    found = parts(agent, plugins=[Screen("screen")])
    assert found["before_tool send"].runs_in == "activity call_tool"
    assert found["code executor BuiltInCodeExecutor"].runs_in == "the model's provider"
    assert "instruction <lambda>" in found
    assert found["plugin screen"].agent == "shop"


def test_a_body_is_read_for_what_is_not_replay_safe() -> None:
    """Names, places and nothing else, without running it."""
    found = parts(ParallelAgent(name="both", sub_agents=[Careless(name="a"), Careful(name="b")]))
    findings = found["agent Careless"].findings
    named = {finding.partition(" ")[0] for finding in findings}
    assert named == {"time.time", "random.random", "os.environ", "open"}
    line = Careless._run_async_impl.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}" in findings[0]
    assert found["agent Careful"].findings == []
    assert found["agent ParallelAgent"].findings == []


@pytest.mark.parametrize(
    ("agent", "part", "says"),
    [
        (LlmAgent(name="clerk", model="scripted", tools=[streams]), "tool streams", "yields"),
        (LlmAgent(name="clerk", model="no-such-model"), "model no-such-model", "no-such-model"),
        (LlmAgent(name="clerk"), "model ", "set its model"),
    ],
)
def test_what_is_refused_at_run_time_is_a_finding(agent: LlmAgent, part: str, says: str) -> None:
    """In the words of the error that a run would end with."""
    [finding] = parts(agent)[part].findings
    assert says in finding


@pytest.mark.parametrize("custom", [False, True])
def test_steps_that_share_an_activity_are_shown_so(custom: bool) -> None:
    """`App.steps_per_activity`: not a tool with an activity of its own, and no custom agent's."""
    once = FunctionTool(send, contract="at_most_once")
    agents: list[BaseAgent] = [LlmAgent(name="a", model="gemini-2.5-flash", tools=[once])]
    agents += [Careful(name="b")] if custom else []
    root = ParallelAgent(name="p", sub_agents=agents)
    found = {part.name: part.runs_in for part in app_parts(_app(root, steps_per_activity=20))}
    assert found["gemini-2.5-flash"] == f"activity {'call_model' if custom else 'run_steps'}"
    assert found["send"] == "activity call_tool"


def _app(root: BaseNode, **fields: Any) -> App:
    return App(name="app", root_agent=root, **fields)


def each(node_input: Any) -> Any:
    """Return the input."""
    return node_input


def test_nodes_that_share_an_activity_are_shown_so() -> None:
    """`App.steps_per_activity`: not the items of a worker, which have batches of their own."""
    items = node(each, name="items", parallel_worker=True)
    apart = node(each, name="apart", task_queue="gpu")
    root = Workflow(name="wf", edges=[("START", node(each), items, apart)])
    found = {part.name: part.runs_in for part in app_parts(_app(root, steps_per_activity=20))}
    assert found["each"] == "activity run_steps"
    assert found["apart"] == "activity run_node, on task queue gpu"
    assert found["items"] == "activity run_items for each item"


def test_nodes_are_listed_with_their_rules() -> None:
    """Where a node runs, how often, for how long, and what a crash repeats."""
    rule = RetryConfig(max_attempts=3, exceptions=[ValueError])
    items = node(each, name="items", timeout=2, parallel_worker=True, max_parallel_workers=4)
    nodes = [
        node(each, retry_config=rule, timeout=5),
        items,
        JoinNode(name="both"),
        Workflow(name="inner", edges=[("START", LlmAgent(name="clerk", model="scripted"))]),
    ]
    found = parts(Workflow(name="wf", edges=[("START", *nodes)]))
    told = {name: (part.runs_in, part.after_crash) for name, part in found.items()}
    again = "runs again, unless its output was stored"
    goes_on = "continues where it was; completed work is not repeated"
    assert told == {
        "workflow Workflow": ("workflow code", goes_on),
        "function node each": (
            "activity run_node, up to 3 attempts after ValueError, timeout 5 s",
            again,
        ),
        "worker node items": (
            "activity run_items for each item, 4 items at once, timeout 2 s",
            goes_on,
        ),
        "join node both": ("activity run_node", again),
        "workflow node inner": ("workflow code", goes_on),
        "agent node clerk": ("workflow code", goes_on),
        "agent LlmAgent": ("workflow code", goes_on),
        "model scripted": (
            "activity call_model",
            "is called again, unless its response was stored",
        ),
    }
    assert not any(part.warnings for part in found.values())


def test_doubtful_graphs_and_tools_are_warned_of() -> None:
    """GR-42: they run all the same."""
    pay = FunctionTool(send, name="pay", contract="idempotent")
    edges: list[Any] = [("START", each, {"a": ToolNode(tool=pay)})]
    found = parts(Workflow(name="wf", edges=edges))
    assert [len(part.warnings) for part in found.values()] == [1, 0, 1]
    assert "has no edge with DEFAULT_ROUTE" in found["workflow Workflow"].warnings[0]
    assert found["tool node pay"].warnings == [
        "Of the tool 'pay', its contract 'idempotent' has no effect in a graph.",
    ]


def test_a_single_node_is_an_app() -> None:
    """GR-8: without a graph round it."""
    assert list(parts(node(each))) == ["function node each"]
