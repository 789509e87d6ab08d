"""Agents side by side (AGT-33, AGT-34, DUR-15)."""

import asyncio
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.tools.tool_context import ToolContext
from tests.conftest import MakeRunner
from tests.support.bounds import bounded, within
from tests.support.scripts import call, gist, send, stored
from tests.support.waiting import PATIENCE, forever, until


def researcher(name: str, **fields: Any) -> LlmAgent:
    """An agent that looks something up with a tool, then says what it found."""

    async def look(tool_context: ToolContext) -> str:
        tool_context.state[f"seen_{name}"] = True
        return f"facts of {name}"

    model = ScriptedModel(replies=[call("look"), f"report of {name}"])
    return LlmAgent(name=name, model=model, tools=[look], **fields)


@bounded
async def test_a_child_that_fails_cancels_the_others_and_leaves_no_call_open(
    make_runner: MakeRunner,
) -> None:
    """AGT-33: the failure is raised; the sibling's call is answered by the sealing (I9)."""
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        await forever()

    async def broken() -> None:
        await until(begun.is_set)
        raise ValueError("broken")

    agent = ParallelAgent(
        name="par",
        sub_agents=[
            LlmAgent(name="a", model=ScriptedModel(replies=[call("slow"), "x"]), tools=[slow]),
            LlmAgent(name="b", model=ScriptedModel(replies=[call("broken"), "x"]), tools=[broken]),
        ],
    )
    runner = await make_runner(agent)
    with (
        within(20, "a child that fails ends the others"),
        pytest.raises(ValueError, match="broken"),
    ):
        await send(runner)
    events = await stored(runner)
    asked = {c.id for event in events for c in event.get_function_calls()}
    assert asked == {r.id for event in events for r in event.get_function_responses()}
    assert events[-1].error_code == "ValueError"


class Escalating(BaseAgent):
    """Escalates, then says one thing more."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        yield Event(author=self.name, actions=EventActions(escalate=True))
        yield Event(
            author=self.name, content=types.Content(parts=[types.Part(text="done")], role="model")
        )


async def test_a_child_that_escalates_stops_and_cancels_the_others(
    make_runner: MakeRunner,
) -> None:
    """AGT-33, TRAP-31: its body does not continue; the loop round it ends, the run succeeds."""
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        await forever()

    async def later(**_: Any) -> None:
        await until(begun.is_set)

    waiting = LlmAgent(name="w", model=ScriptedModel(replies=[call("slow"), "x"]), tools=[slow])
    model = ScriptedModel(replies=lambda _: "hi")
    first = LlmAgent(name="first", model=model, before_model_callback=later)
    second = SequentialAgent(name="second", sub_agents=[first, Escalating(name="e")])
    agent = LoopAgent(
        name="loop",
        sub_agents=[
            ParallelAgent(name="par", sub_agents=[waiting, Direct(name="d", wait=second)]),
        ],
    )
    events = await send(await make_runner(agent))
    assert "d delta" in [gist(event) for event in events]
    assert "d text done" not in [gist(event) for event in events]
    assert "w text x" not in [gist(event) for event in events]
    asked = {c.id for event in events for c in event.get_function_calls()}
    assert asked == {r.id for event in events for r in event.get_function_responses()}


class Direct(BaseAgent):
    """Lets another agent run, then escalates by itself."""

    wait: BaseAgent

    def model_post_init(self, context: Any, /) -> None:
        """Own the agent it waits for."""
        self.sub_agents = [self.wait]
        super().model_post_init(context)

    async def _run_async_impl(self, ctx: Any) -> Any:
        async for event in self.wait.run_async(ctx):
            yield event
        yield Event(author=self.name, actions=EventActions(escalate=True))
        yield Event(
            author=self.name, content=types.Content(parts=[types.Part(text="done")], role="model")
        )


async def test_an_inner_escalation_does_not_cancel_siblings(make_runner: MakeRunner) -> None:
    """AGT-33: only a direct child's does; a loop inside a child ends itself and nothing else."""
    escalated = asyncio.Event()

    async def later(**_: Any) -> None:
        await until(escalated.is_set)

    inner = LoopAgent(name="inner", sub_agents=[Escalating(name="e")])
    sibling = researcher("a", before_model_callback=later)
    runner = await make_runner(ParallelAgent(name="par", sub_agents=[inner, sibling]))

    async def has_escalated() -> bool:
        return "e delta" in [gist(event) for event in await stored(runner)]

    sending = asyncio.create_task(send(runner))
    await until(has_escalated)
    escalated.set()
    assert "a text report of a" in [gist(event) for event in await sending]


class Meeting:
    """Lets no one continue before all are there; one that comes again, as a retry, may continue."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._present = set[str]()
        self._complete = asyncio.Event()

    async def join(self, name: str) -> None:
        """Wait for the others."""
        self._present.add(name)
        if len(self._present) == self._number:
            self._complete.set()
        await self._complete.wait()


class Joining(ScriptedModel):
    """Joins a meeting before it answers."""

    meeting: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        await self.meeting.join(self.model)
        async for response in super().generate_content_async(llm_request, stream):
            yield response


async def test_ten_children_are_under_way_at_once(make_runner: MakeRunner) -> None:
    """AGT-33: ten model calls wait for one another, and so do ten tools; else this never ends."""
    number = 10
    asked, used = Meeting(number), Meeting(number)

    async def look(who: str) -> str:
        await used.join(who)
        return "facts"

    def child(name: str) -> LlmAgent:
        replies = [call("look", who=name), f"report of {name}"]
        model = Joining(model=name, replies=replies, meeting=asked)
        return LlmAgent(name=name, model=model, tools=[look])

    agent = ParallelAgent(name="par", sub_agents=[child(f"r{i}") for i in range(number)])
    runner = await make_runner(agent)
    async with asyncio.timeout(PATIENCE):
        assert len(await send(runner)) == 3 * number
