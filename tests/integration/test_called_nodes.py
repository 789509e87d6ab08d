"""Sub-agents and graphs that a model's calls run in its session, in process and on Temporal."""

import asyncio
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import workflow_id
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import Status
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool
from durable_adk.tools.finish_task_tool import IGNORED
from tests.conftest import MakeRunner
from tests.integration.test_graphs import KEY, answers
from tests.integration.test_task_agents import DONE, Model, gist, said, status
from tests.support.scripts import USER, call, stored
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.replayed


def ids(**named: dict[str, Any]) -> types.Content:
    """A model turn that calls functions, by their call ids: `id_name`."""
    parts = [
        types.Part(
            function_call=types.FunctionCall(
                id=name.partition("_")[0], name=name.partition("_")[2], args=args
            )
        )
        for name, args in named.items()
    ]
    return types.Content(role="model", parts=parts)


async def reply(runner: Runner, **given: Any) -> list[tuple[Any, ...]]:
    """What comes of answers to calls."""
    message = answers(**{name: {"result": value} for name, value in given.items()})
    async with asyncio.timeout(PATIENCE):
        return [gist(event) async for event in runner.run_async(**USER, new_message=message)]


def coordinator(model: ScriptedModel, *sub_agents: LlmAgent, **options: Any) -> LlmAgent:
    """An agent that hands out tasks."""
    return LlmAgent(name="coord", model=model, sub_agents=list(sub_agents), **options)


async def test_a_task_is_handed_out_by_a_call(make_runner: MakeRunner) -> None:
    """GR-175: the sub-agent talks to the user, and the coordinator sees only its output."""
    model = Model(replies=[ids(d1_booker={"request": "book"}), "done", "second"])
    own = Model(replies=["when?", call("finish_task", result="ok")])
    booker = LlmAgent(name="booker", description="Books.", mode="task", model=own, output_key="b")
    runner = await make_runner(coordinator(model, booker))
    path = "coord@1/booker@d1"
    assert await said(runner, "hi") == [
        ("coord", "", None, ("booker", {"request": "book"})),
        ("booker", path, "d1", "when?"),
    ]
    assert await status(runner) is Status.PAUSED
    got = await said(runner, "tuesday")
    assert got == [
        ("booker", path, "d1", ("finish_task", {"result": "ok"})),
        ("booker", path, "d1", DONE, {"result": "ok"}),
        ("coord", "", None, ("booker", {"result": "ok"})),
        ("coord", "", None, "done"),
    ]
    events = await stored(runner)
    assert {event.branch for event in events if event.author == "booker"} == {"booker@d1"}
    assert gist(events[3]) == ("user", "", "d1", "tuesday")
    assert len({event.invocation_id for event in events}) == 1
    assert (await said(runner, "again"))[-1][3] == "second"
    assert own.prompts()[1] == [
        ("user", '{"request": "book"}'),
        ("model", "when?"),
        ("user", "tuesday"),
    ]
    assert model.prompts()[2] == [
        ("user", "hi"),
        ("model", ("booker", {"request": "book"})),
        ("user", ("booker", {"result": "ok"})),
        ("model", "done"),
        ("user", "again"),
    ]
    (tool,) = model.requests[0].config.tools or []
    (declared,) = tool.function_declarations  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert declared.name == "booker"
    assert declared.description.startswith("Books.\nIMPORTANT: This tool delegates")


async def test_single_turns_run_side_by_side_and_tasks_in_order(make_runner: MakeRunner) -> None:
    """GR-176, GR-177: the former share an event of responses, and the latter have one each."""
    turn = ids(
        a_sum={"request": "1"}, b_sum={"request": "2"}, c_one={"request": "3"}, d_two={"n": 4}
    )
    model = Model(replies=[turn, "done"])

    class In(BaseModel):
        n: int

    def task(name: str, **options: Any) -> LlmAgent:
        own = Model(replies=["so?", call("finish_task", result=name)])
        return LlmAgent(name=name, mode="task", model=own, **options)

    both = asyncio.Barrier(2)

    async def meet() -> None:
        await both.wait()

    summer = Model(replies=[call("meet"), "text"])
    one, two = task("one"), task("two", input_schema=In)
    agent = LlmAgent(name="sum", mode="single_turn", model=summer, tools=[meet])
    runner = await make_runner(coordinator(model, agent, one, two))
    got = await said(runner, "hi")
    assert sorted(one[1] for one in got if one[3] == "text") == ["coord@1/sum@1", "coord@1/sum@2"]
    assert got[-2][3] == [("sum", {"result": "text"})] * 2
    assert got[-1] == ("one", "coord@1/one@c", "c", "so?")
    got = await said(runner, "go on")
    assert [one[3] for one in got[-2:]] == [("one", {"result": "one"}), "so?"]
    assert got[-1][:3] == ("two", "coord@1/two@d", "d")
    got = await said(runner, "go on")
    assert [one[3] for one in got[-2:]] == [("two", {"result": "two"}), "done"]
    assert len(model.prompts()[1]) == 3  # not what its calls have run
    assert sorted(prompt[0][1] for prompt in summer.prompts()) == ["1", "1", "2", "2"]
    assert {prompt[0][1] for prompt in two.model.prompts()} == {'{"n": 4}'}  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_task_does_not_end_while_it_hands_out_another(make_runner: MakeRunner) -> None:
    """GR-172: the model calls `finish_task` again, once it has the result of the other one."""
    both = ids(f_finish_task={"result": "early"}, b_booker={"request": "book"})
    host = Model(replies=[both, call("finish_task", result="late")])
    own = Model(replies=["when?", call("finish_task", result="ok")])
    booker = LlmAgent(name="booker", description="Books.", mode="task", model=own)
    agent = LlmAgent(name="host", model=host, mode="task", sub_agents=[booker])
    runner = await make_runner(Workflow(name="wf", edges=[("START", agent)]))
    assert [one[3] for one in await said(runner, "hi")] == [
        [("finish_task", {"result": "early"}), ("booker", {"request": "book"})],
        ("finish_task", {"error": IGNORED}),
        "when?",
    ]
    got = await said(runner, "tuesday")
    assert [one[3] for one in got[2:]] == [
        ("booker", {"result": "ok"}),
        ("finish_task", {"result": "late"}),
        DONE,
    ]
    assert got[-1][4] == {"result": "late"}


async def test_a_single_turn_may_ask_for_a_confirmation(make_runner: MakeRunner) -> None:
    """GR-176: the coordinator waits with it, and the answer goes to it."""
    runs: list[str] = []

    def danger(city: str) -> str:
        runs.append(city)
        return "boom"

    own = Model(replies=[call("danger", city="Bonn"), "it is done"])
    agent = LlmAgent(
        name="sum",
        mode="single_turn",
        model=own,
        tools=[FunctionTool(danger, require_confirmation=True)],
    )
    model = Model(replies=[ids(c1_sum={"request": "go"}), "fine"])
    runner = await make_runner(coordinator(model, agent))
    asked = (await said(runner, "hi"))[-2:]
    assert await status(runner) is Status.PAUSED
    events = await stored(runner)
    (name,) = {
        one.id or ""
        for event in events
        for one in event.get_function_calls()
        if one.name == "adk_request_confirmation"
    }
    assert runs == []
    response = types.FunctionResponse(
        id=name, name="adk_request_confirmation", response={"confirmed": True}
    )
    message = types.Content(role="user", parts=[types.Part(function_response=response)])
    async with asyncio.timeout(PATIENCE):
        got = [gist(one) async for one in runner.run_async(**USER, new_message=message)]
    assert runs == ["Bonn"], asked
    assert [one[3] for one in got[-3:]] == ["it is done", ("sum", {"result": "it is done"}), "fine"]
    assert own.prompts()[1][0] == ("user", "go")


class City(BaseModel):
    """The input of a graph."""

    city: str
    days: int = 3


def inner(**options: Any) -> Workflow:
    """A graph that asks."""

    def ask(node_input: City) -> RequestInput:
        return RequestInput(interrupt_id=f"q{node_input.city}", message=str(node_input.days))

    def end(node_input: Any) -> list[Any]:
        if node_input == "fail":
            raise ValueError("no such city")
        return ["end", node_input]

    return Workflow(name="inner", description="d", edges=[("START", ask, end)], **options)


async def test_a_graph_as_a_tool_may_ask(make_runner: MakeRunner) -> None:
    """GR-192: its input is that of its first node, and two calls of a turn may both wait."""
    two = ids(c1_inner={"city": "A"}, c2_inner={"city": "B", "days": 7})
    model = Model(replies=[call("inner", town="x"), two, "fine"])
    runner = await make_runner(LlmAgent(name="ag", model=model, tools=[inner()]))
    got = await said(runner, "hi")
    assert "failed due to argument validation errors" in got[1][3][1]["error"]
    paths = ["ag@1/inner@c1/ask@1", "ag@1/inner@c2/ask@1"]
    assert sorted(one[1] for one in got[3:]) == paths
    assert {one[3][1]["message"] for one in got[3:]} == {"3", "7"}
    assert await status(runner) is Status.PAUSED
    got = await reply(runner, qB="yes")
    assert [one[1:] for one in got[1:]] == [
        ("ag@1/inner@c2/end@1", None, None, ["end", "yes"]),
    ]
    assert await status(runner) is Status.PAUSED
    got = await reply(runner, qA="no")
    assert [one[3] for one in got[-2:]] == [
        [("inner", {"result": ["end", "no"]}), ("inner", {"result": ["end", "yes"]})],
        "fine",
    ]
    assert await status(runner) is Status.COMPLETED
    assert len(model.prompts()[2]) == 5
    assert {event.branch for event in await stored(runner) if "inner" in event.node_info.path} == {
        "inner@c1",
        "inner@c2",
    }


async def test_the_failure_of_a_graph_is_the_response_of_its_call(make_runner: MakeRunner) -> None:
    """GR-192: the model goes on."""
    model = Model(replies=[ids(c1_inner={"city": "A"}), "sorry"])
    runner = await make_runner(LlmAgent(name="ag", model=model, tools=[inner()]))
    await said(runner, "hi")
    got = await reply(runner, qA="fail")
    (failure,) = [one for one in await stored(runner) if one.error_code]
    assert (failure.node_info.path, failure.error_code) == ("ag@1/inner@c1/end@1", "ValueError")
    assert got[-2][3] == ("inner", {"error": "no such city"})
    assert got[-1][3] == "sorry"


async def test_a_node_agent_hands_over_within_its_run(make_runner: MakeRunner) -> None:
    """GR-179, B-10: once, on the path of the node, whose output is the last agent's text."""
    target = LlmAgent(name="expert", model=(own := Model(replies=["expert text"])))
    model = Model(replies=[call("transfer_to_agent", agent_name="expert")])
    first = LlmAgent(name="first", model=model, sub_agents=[target], mode="single_turn")

    def end(node_input: Any) -> Any:
        return node_input

    runner = await make_runner(Workflow(name="wf", edges=[("START", first, end)]))
    got = await said(runner, "hi")
    path = "wf@1/first@1"
    assert [one[:2] for one in got] == [("first", path)] * 2 + [
        ("expert", path),
        ("wf", "wf@1/end@1"),
    ]
    assert got[-1][4] == "expert text"
    assert len(own.requests) == 1


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_calls_wait_across_runs_of_the_workflow(
    make_runner: MakeRunner, client: Client
) -> None:
    """D10: a turn with a task and graphs that wait continues as new, with what it has."""
    turn = ids(
        c1_inner={"city": "A"}, c2_inner={"city": "B", "days": 7}, c3_booker={"request": "x"}
    )
    model = Model(replies=[turn, "fine"])
    own = Model(replies=["when?", "where?", call("finish_task", result="ok")])
    booker = LlmAgent(name="booker", mode="task", model=own)
    root = coordinator(model, booker, tools=[inner()])
    runner = await make_runner(root, limits=Limits(max_history_events=1))
    await said(runner, "hi", invocation_id="i1")
    await reply(runner, qB="yes")
    got = await reply(runner, qA="no")
    assert [one[3] for one in got[-2:]] == [
        [("inner", {"result": ["end", "no"]}), ("inner", {"result": ["end", "yes"]})],
        "when?",
    ]
    assert (await said(runner, "today"))[-1][3] == "where?"
    got = await said(runner, "here")
    assert [one[3] for one in got[-3:]] == [DONE, ("booker", {"result": "ok"}), "fine"]
    first = (await client.get_workflow_handle(workflow_id(KEY, "i1")).describe()).raw_info
    assert first.first_run_id != first.execution.run_id
    assert own.prompts()[-1][0] == ("user", '{"request": "x"}')
    assert len(own.prompts()) == 3


def test_graphs_and_agents_have_their_places() -> None:
    """GR-182, GR-194, B-47."""
    agent = LlmAgent(name="b", model=ScriptedModel())
    with pytest.raises(ValueError, match="use it as a tool of an LlmAgent"):
        LlmAgent(name="a", model=ScriptedModel(), sub_agents=[inner()])  # pyright: ignore[reportArgumentType]
    with pytest.raises(AgentDefinitionError, match="Agents should be invoked as sub-agents"):
        App(root_agent=LlmAgent(name="a", model=ScriptedModel(), tools=[agent])).manifest()
