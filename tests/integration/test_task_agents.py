"""Agents that talk to the user until their task is done, in process and on Temporal."""

import asyncio
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType

from durable_adk.agents import Context, LlmAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, Status
from durable_adk.tools import AgentTool
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, ensure_session, send, state, stored
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.replayed

KEY = SessionKey("app", "u", "s")


class Out(BaseModel):
    """The output of a task."""

    city: str
    n: int = 0


class Model(ScriptedModel):
    """A scripted model that keeps its prompts, without the ids of calls."""

    def prompts(self) -> list[list[Any]]:
        """The contents of all requests, each as its role and its parts."""
        return [[_said(one) for one in request.contents] for request in self.requests]


def _said(content: types.Content) -> tuple[str | None, Any]:
    parts: list[Any] = []
    for part in content.parts or []:
        function = part.function_call
        response = part.function_response
        if function is not None:
            parts.append((function.name, function.args))
        elif response is not None:
            parts.append((response.name, response.response))
        else:
            parts.append(part.text)
    return content.role, parts[0] if len(parts) == 1 else parts


def gist(event: Event) -> tuple[Any, ...]:
    """An event as its author, path and scope, and what it says."""
    said = _said(event.content)[1] if event.content else None
    output = () if event.output is None else (event.output,)
    return (event.author, event.node_info.path, event.isolation_scope, said, *output)


async def said(runner: Runner, message: str, **options: Any) -> list[tuple[Any, ...]]:
    """What comes of a message."""
    async with asyncio.timeout(PATIENCE):
        return [gist(event) for event in await send(runner, message, **options)]


async def status(runner: Runner) -> Status:
    """How far the invocation of the newest event is."""
    events = await stored(runner)
    record = await runner.session_service.get_invocation(KEY, events[-1].invocation_id)
    assert record is not None
    return record.status


def tool_names(request: LlmRequest) -> list[str]:
    """The names of the tools in a request."""
    tools: list[Any] = request.config.tools or []
    return [one.name for tool in tools for one in tool.function_declarations or []]


ASKER = "wf@1/asker@1"
DONE = ("finish_task", {"result": "Task completed."})


def after(node_input: Any) -> list[Any]:
    """The node behind the task."""
    return ["after", node_input]


def asking(model: ScriptedModel, **options: Any) -> Workflow:
    """A graph that begins with a task agent."""
    agent = LlmAgent(name="asker", model=model, mode="task", **options)
    return Workflow(name="wf", edges=[("START", agent, after)])


async def test_a_task_agent_talks_to_the_user_until_it_finishes(make_runner: MakeRunner) -> None:
    """GR-82, GR-171 to GR-174: its prompt begins with its input, and has the replies."""
    model = Model(
        replies=[
            "what city?",
            call("finish_task", n="x"),
            call("finish_task", city="Paris"),
        ]
    )
    runner = await make_runner(asking(model, output_schema=Out, output_key="trip"))
    asked = ("asker", ASKER, ASKER, "what city?")
    assert await said(runner, "plan a trip") == [asked]
    assert await status(runner) is Status.PAUSED
    (first, _) = await stored(runner)

    got = await said(runner, "Paris")
    assert [one[:3] for one in got[:-1]] == [("asker", ASKER, ASKER)] * 4
    assert "failed due to validation errors" in got[1][3][1]["error"]
    assert got[3] == ("asker", ASKER, ASKER, DONE, {"city": "Paris", "n": 0})
    assert got[4] == ("wf", "wf@1/after@1", None, None, ["after", {"city": "Paris", "n": 0}])
    events = await stored(runner)
    assert gist(events[2]) == ("user", "", ASKER, "Paris")
    assert {event.invocation_id for event in events} == {first.invocation_id}
    assert await status(runner) is Status.COMPLETED
    assert await state(runner) == {"trip": {"city": "Paris", "n": 0}}
    assert model.prompts()[1] == [
        ("user", "plan a trip"),
        ("model", "what city?"),
        ("user", "Paris"),
    ]
    assert model.prompts()[2][0] == ("user", "plan a trip")

    assert (await said(runner, "a third"))[0] == asked
    assert len({event.invocation_id for event in await stored(runner)}) == 2


async def test_a_root_agent_may_have_a_task(make_runner: MakeRunner) -> None:
    """GR-170: its output is the text of the result, and each task begins without the last one."""
    model = Model(replies=["what city?", call("finish_task", result="Paris")])
    runner = await make_runner(LlmAgent(name="root", model=model, mode="task"))
    for task in ("plan", "more"):
        assert await said(runner, task) == [("root", "root@1", "root@1", "what city?")]
        got = await said(runner, "there")
        assert got[-1] == ("root", "root@1", "root@1", DONE, {"result": "Paris"})
        assert got[-1][4:] == ({"result": "Paris"},)
        assert await status(runner) is Status.COMPLETED
        assert model.prompts()[-1] == [
            ("user", task),
            ("model", "what city?"),
            ("user", "there"),
        ]
    assert len({event.invocation_id for event in await stored(runner)}) == 2
    assert tool_names(model.requests[0]) == ["finish_task"]
    assert "Do not call `finish_task` prematurely" in str(
        model.requests[0].config.system_instruction
    )


async def test_code_waits_for_a_task_agent_that_it_calls(make_runner: MakeRunner) -> None:
    """GR-82, GR-162, B-50: the agent sees the replies, and nothing runs with None meanwhile."""
    model = Model(replies=["where?", call("finish_task", result="ok")])
    asker = LlmAgent(name="asker", model=model, mode="task")
    given: list[Any] = []

    @node(rerun_on_resume=True)
    async def code(ctx: Context) -> Any:
        return await ctx.run_node(asker, "plan")

    def after(node_input: Any) -> str:
        given.append(node_input)
        return "end"

    runner = await make_runner(Workflow(name="wf", edges=[("START", code, after)]))
    path = "wf@1/code@1/asker@1"
    assert await said(runner, "hi") == [("asker", path, path, "where?")]
    assert given == []
    got = await said(runner, "Bonn")
    assert [one[:3] for one in got[:2]] == [("asker", path, path)] * 2
    assert given == [{"result": "ok"}]
    assert model.prompts()[1] == [("user", "plan"), ("model", "where?"), ("user", "Bonn")]


async def loop_knows(runner: Runner, invocation_id: str) -> bool:
    """Whether the loop has dealt with the first step that has ended; in process it has at once."""
    invocations = getattr(runner._client.backend, "_invocations", None)
    if invocations is None:
        return True
    handle = invocations.handle(KEY, invocation_id)
    events = (await handle.workflow.fetch_history()).events
    ends = (EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,)
    tasks = (EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,)
    first = next((one.event_id for one in events if one.event_type in ends), None)
    last = max(one.event_id for one in events if one.event_type in tasks)
    return first is not None and last > first


async def test_no_node_begins_while_a_task_agent_waits(make_runner: MakeRunner) -> None:
    """GR-73: those behind other branches begin once the user has answered."""
    runs: list[str] = []

    def left(node_input: Any) -> str:
        runs.append("left")
        return "left"

    def next_one(node_input: Any) -> str:
        runs.append("next")
        return "next"

    model = Model(replies=["what?", call("finish_task", result="ok")])
    asker = LlmAgent(name="asker", model=model, mode="task")
    slow = asyncio.Event()

    async def right(node_input: Any) -> str:
        await slow.wait()
        runs.append("right")
        return "right"

    join = JoinNode(name="j")
    edges: list[Any] = [("START", (asker, right)), (right, left, next_one, join), (asker, join)]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    await ensure_session(runner)
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        async for event in runner.run_async(**USER, new_message="hi"):
            events.append(event)
            if len(events) == 1:
                await until(lambda: loop_knows(runner, event.invocation_id))  # noqa: B023 - at once
                slow.set()
    assert [event.node_info.path for event in events] == [ASKER, "wf@1/right@1"]
    assert runs == ["right"]
    assert await status(runner) is Status.PAUSED
    got = await said(runner, "it")
    assert runs == ["right", "left", "next"]
    assert got[-1][4] == {"next_one": "next", "asker": {"result": "ok"}}


def test_modes_have_their_places() -> None:
    """GR-170."""
    agent = LlmAgent(name="a", model=ScriptedModel(), mode="single_turn")
    with pytest.raises(ValueError, match="must have mode='chat' or 'task', but got"):
        App(root_agent=agent)
    task = LlmAgent(name="t", model=ScriptedModel(), mode="task")
    with pytest.raises(ValueError, match="cannot be used as an AgentTool"):
        App(root_agent=LlmAgent(name="a", model=ScriptedModel(), tools=[AgentTool(task)]))
    with pytest.raises(ValueError, match="has no meaning below 'seq', a SequentialAgent"):
        App(root_agent=SequentialAgent(name="seq", sub_agents=[task]))
