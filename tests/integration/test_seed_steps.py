"""The seeds' twenty steps: find the capital of France (acceptance rows 67 to 92)."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.context.activity import ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner, Runner
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, ensure_session, gist, send, shape, state, stored

QUESTION = "find capital of France"


def capital_agent(seen: list[str] | None = None, runner: list[Runner] | None = None) -> LlmAgent:
    """An agent that looks the capital up; the tool notes what is stored when it runs."""

    async def get_capital(country: str, tool_context: ToolContext) -> str:
        """Return the capital of a country."""
        if seen is not None and runner:
            seen.extend(gist(event) for event in await stored(runner[0]))
        tool_context.state["last_country"] = country
        return "Paris"

    model = ScriptedModel(replies=[call("get_capital", country="France"), "It is Paris."])
    return LlmAgent(name="geographer", model=model, tools=[get_capital])


async def test_three_events_are_yielded_and_four_stored(make_runner: MakeRunner) -> None:
    """Rows 69, 73, 79, 86, 91: user first and not yielded, then call, response, text."""
    runner = await make_runner(capital_agent())
    events = await send(runner, QUESTION)
    assert [gist(event) for event in events] == [
        "geographer call get_capital",
        "geographer response get_capital",
        "geographer text It is Paris.",
    ]
    log = await stored(runner)
    assert [gist(event) for event in log] == [
        "user text find capital of France",
        *map(gist, events),
    ]
    assert len({event.invocation_id for event in log}) == 1
    assert [event.is_final_response() for event in events] == [False, False, True]
    assert events[1].content is not None
    assert events[1].content.role == "user"
    assert events[1].get_function_responses()[0].response == {"result": "Paris"}


async def test_an_event_handed_over_is_already_stored(make_runner: MakeRunner) -> None:
    """Rows 19, 75, 83, 88, DUR-7: a fresh read at each yield holds the event and its changes."""
    runner = await make_runner(capital_agent())
    await ensure_session(runner)
    async for event in runner.run_async(**USER, new_message=QUESTION):
        log = await stored(runner)
        assert shape(event) in [shape(other) for other in log]
        if event.get_function_responses():
            assert (await state(runner))["last_country"] == "France"


async def test_the_tool_starts_after_its_call_is_committed(make_runner: MakeRunner) -> None:
    """Row 77, TRAP-2: no side effect without a record of the call."""
    seen: list[str] = []
    runners: list[Runner] = []
    runner = await make_runner(capital_agent(seen, runners))
    runners.append(runner)
    await send(runner, QUESTION)
    assert seen == ["user text find capital of France", "geographer call get_capital"]


async def test_the_second_request_holds_call_and_response() -> None:
    """Row 85: the model gets the tool's result for its answer."""
    agent = capital_agent()
    async with InMemoryRunner(agent) as runner:
        await send(runner, QUESTION)
    model = agent.model
    assert isinstance(model, ScriptedModel)
    first, second = model.requests
    assert len(first.contents) == 1
    kinds = [
        [sorted(part.model_dump(exclude_none=True)) for part in c.parts or []]
        for c in second.contents
    ]
    assert kinds == [[["text"]], [["function_call"]], [["function_response"]]]


async def test_events_are_the_same_in_process_and_on_temporal(make_runner: MakeRunner) -> None:
    """D14: ids, order, content and changes do not depend on what drives the loop."""
    name = f"e-{uuid.uuid4()}"
    async with InMemoryRunner(capital_agent(), app_name="app") as reference:
        expected = await send(reference, QUESTION, invocation_id=name)
        expected_log = await stored(reference)
    runner = await make_runner(capital_agent())
    events = await send(runner, QUESTION, invocation_id=name)
    assert [shape(event) for event in events] == [shape(event) for event in expected]
    assert [shape(e) for e in await stored(runner)] == [shape(e) for e in expected_log]


class Steps(BaseAgent):
    """A custom agent that reads its state back after each commit."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ctx.session.state["field_1"] = "value_1"
        yield self._event({"field_1": "value_2"})
        yield self._event({"seen": ctx.session.state["field_1"]})
        ctx.session.state["status"] = "processing"
        yield self._event({"status": "processing", "temp:note": "gone"})
        yield self._event({"seen_2": [ctx.session.state["status"], ctx.session.state["temp:note"]]})

    def _event(self, delta: dict[str, Any]) -> Event:
        content = types.Content(parts=[types.Part(text=str(sorted(delta)))])
        return Event(author=self.name, actions=EventActions(state_delta=delta), content=content)


async def test_after_resume_the_agent_sees_the_committed_state(make_runner: MakeRunner) -> None:
    """Rows 32, 33, 96, STA-6, TRAP-7: the line after the yield reads the committed value."""
    runner = await make_runner(Steps(name="steps"))
    events = await send(runner)
    assert len(events) == 4
    assert await state(runner) == {
        "field_1": "value_2",
        "seen": "value_2",
        "status": "processing",
        "seen_2": ["processing", "gone"],
    }
    assert "temp:note" not in events[2].actions.state_delta


async def test_a_tool_reads_what_an_earlier_callback_wrote(make_runner: MakeRunner) -> None:
    """Rows 97, 98, STA-14: a dirty read across activities, `temp:` keys included."""

    def prepare(callback_context: Any) -> None:
        callback_context.state["field_1"] = "value_1"
        callback_context.state["temp:field_2"] = "value_2"

    def look(tool_context: ToolContext) -> list[str]:
        """Look at the state."""
        return [tool_context.state["field_1"], tool_context.state["temp:field_2"]]

    model = ScriptedModel(replies=[call("look"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[look], before_agent_callback=prepare)
    runner = await make_runner(agent)
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a delta",
        "a call look",
        "a response look",
        "a text done",
    ]
    assert events[2].get_function_responses()[0].response == {"result": ["value_1", "value_2"]}
    assert await state(runner) == {"field_1": "value_1"}
