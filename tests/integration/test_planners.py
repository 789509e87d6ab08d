"""Planners in a run (FLW-95, FLW-96, AGT-23)."""

from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.models import LlmResponse, ScriptedModel
from durable_adk.planners import BasePlanner, BuiltInPlanner, PlanReActPlanner
from tests.conftest import MakeRunner
from tests.support.scripts import call, gist, send, state, stored

PLAN = "/*PLANNING*/\n1. Add.\n/*ACTION*/"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def planning(*replies: Any, **fields: Any) -> LlmAgent:
    """An agent with tools that plans."""
    fields = {"planner": PlanReActPlanner(), "tools": [add]} | fields
    return LlmAgent(name="a", model=ScriptedModel(replies=replies), **fields)


def adding(text: str) -> types.Content:
    """A model's turn of a text and a call."""
    content = call("add", a=1, b=2)
    content.parts = [types.Part(text=text), *(content.parts or [])]
    return content


def requests(agent: LlmAgent) -> Any:
    """What the agent's model was asked."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


async def test_the_plan_is_a_thought_and_the_answer_is_the_text(make_runner: MakeRunner) -> None:
    """FLW-95: the stored parts are distinguished; under output_key there is the answer alone."""
    agent = planning(
        adding(PLAN), "/*REASONING*/ It is 3. /*FINAL_ANSWER*/It is 3.", output_key="answer"
    )
    runner = await make_runner(agent)
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a call add",
        "a response add",
        "a text It is 3.",
    ]
    assert [part.thought for part in events[0].parts] == [True, None]
    assert [part.thought for part in events[2].parts] == [True, None]
    assert await state(runner) == {"answer": "It is 3."}
    assert (await stored(runner))[1:] == events


async def test_the_model_is_told_to_plan_and_shown_its_plan(make_runner: MakeRunner) -> None:
    """FLW-2, FLW-95: after the agent's own instruction; the plan is sent back as plain text."""
    agent = planning(adding(PLAN), "/*FINAL_ANSWER*/3", instruction="Be brief.")
    await send(await make_runner(agent))
    first, second = requests(agent)
    instruction = str(first.config.system_instruction)
    assert instruction.index("Be brief.") < instruction.index("/*PLANNING*/")
    (model_turn,) = [content for content in second.contents if content.role == "model"]
    assert "1. Add." in model_turn.parts[0].text
    assert model_turn.parts[0].thought is None


async def test_the_built_in_planner_only_sets_the_configuration(make_runner: MakeRunner) -> None:
    """FLW-95: it comes before the configuration of the agent, and no text is touched."""
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_budget=99)
    own = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=1))
    agent = planning(
        "/*PLANNING*/ kept",
        planner=BuiltInPlanner(thinking_config=thinking),
        generate_content_config=own,
    )
    events = await send(await make_runner(agent))
    assert requests(agent)[0].config.thinking_config == thinking
    assert events[-1].text == "/*PLANNING*/ kept"
    assert own.thinking_config == types.ThinkingConfig(thinking_budget=1)


class Marking(BasePlanner):
    """Writes state in both methods, and signs what the model says."""

    async def build_planning_instruction(self, readonly_context: Any, llm_request: Any) -> str:
        return f"Plan for {readonly_context.user_id}."

    async def process_planning_response(
        self, callback_context: Any, response_parts: list[types.Part]
    ) -> list[types.Part]:
        callback_context.state["plans"] = callback_context.state.get("plans", 0) + 1
        return [*response_parts, types.Part(text=" (planned)")]


async def test_what_a_planner_writes_rides_on_the_answer(make_runner: MakeRunner) -> None:
    """FLW-96, STA-16: with the event that it has changed, in one transaction."""
    agent = planning("Hi.", planner=Marking())
    runner = await make_runner(agent)
    (event,) = await send(runner)
    assert event.text == "Hi. (planned)"
    assert event.actions.state_delta == {"plans": 1}
    assert await state(runner) == {"plans": 1}


async def test_a_callback_s_answer_is_planned_too(make_runner: MakeRunner) -> None:
    """FLW-95: the planner sees whatever replaces the model's response."""
    content = types.Content(role="model", parts=[types.Part(text="Given.")])
    agent = planning(
        planner=Marking(),
        before_model_callback=lambda callback_context, llm_request: LlmResponse(content=content),
    )
    (event,) = await send(await make_runner(agent))
    assert event.text == "Given. (planned)"
    assert content.parts == [types.Part(text="Given.")]


class Broken(Marking):
    """Raises."""

    async def build_planning_instruction(self, readonly_context: Any, llm_request: Any) -> str:
        raise KeyError("no plan")


async def test_a_planner_that_raises_ends_the_run(make_runner: MakeRunner) -> None:
    """CB-12, RUN-8: as a callback does; the model is not asked."""
    agent = planning("never", planner=Broken())
    runner = await make_runner(agent)
    with pytest.raises(KeyError, match="no plan"):
        await send(runner)
    assert requests(agent) == []
    assert (await stored(runner))[-1].error_code == "KeyError"
