"""Planners in a run (FLW-95, FLW-96, AGT-23)."""

from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.models import LlmResponse, ScriptedModel
from durable_adk.planners import BasePlanner, PlanReActPlanner
from tests.conftest import MakeRunner
from tests.support.scripts import send, state

PLAN = "/*PLANNING*/\n1. Add.\n/*ACTION*/"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def planning(*replies: Any, **fields: Any) -> LlmAgent:
    """An agent with tools that plans."""
    fields = {"planner": PlanReActPlanner(), "tools": [add]} | fields
    return LlmAgent(name="a", model=ScriptedModel(replies=replies), **fields)


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
