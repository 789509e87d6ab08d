"""Planners at their place in a model call."""

import pytest
from google.genai import types

from durable_adk.errors import CallbackError
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.planners import BasePlanner, BuiltInPlanner
from durable_adk.planners.planning import apply_planner, planned


class Sync(BasePlanner):
    """A planner as ADK's users write them; it changes the parts in place."""

    def build_planning_instruction(self, readonly_context, llm_request):
        return f"Plan, {readonly_context.agent_name}."

    def process_planning_response(self, callback_context, response_parts):
        callback_context.state["plans"] = 1
        response_parts[0].text += "!"
        return response_parts


class Async(Sync):
    """The same without blocking."""

    async def build_planning_instruction(self, readonly_context, llm_request):
        return super().build_planning_instruction(readonly_context, llm_request)

    async def process_planning_response(self, callback_context, response_parts):
        return super().process_planning_response(callback_context, response_parts)


class Silent(BasePlanner):
    """Has nothing to say."""

    def build_planning_instruction(self, readonly_context, llm_request):
        return None

    def process_planning_response(self, callback_context, response_parts):
        return []


class Broken(BasePlanner):
    """Raises."""

    def build_planning_instruction(self, readonly_context, llm_request):
        raise ValueError("no plan")

    async def process_planning_response(self, callback_context, response_parts):
        raise ValueError("no plan")


def content(*parts: types.Part) -> types.Content:
    return types.Content(role="model", parts=list(parts))


def says(text: str, **fields) -> LlmResponse:
    return LlmResponse(content=content(types.Part(text=text)), **fields)


@pytest.mark.parametrize("planner", [Sync(), Async()])
async def test_the_instruction_comes_after_the_others(planner, context) -> None:
    """FLW-95: planners may be sync or async, and see the step's context."""
    request = LlmRequest()
    request.append_instructions(["First."])
    await apply_planner(planner, context, request)
    assert request.config.system_instruction == "First.\n\nPlan, me."


async def test_earlier_thoughts_are_sent_as_text_and_stay_thoughts_in_history(context) -> None:
    """A model continues from its plan, which the stored event still has as a thought (FLW-27)."""
    stored = content(types.Part(text="plan", thought=True), types.Part(text="said"))
    request = LlmRequest(contents=[stored])
    await apply_planner(Silent(), context, request)
    assert [part.thought for part in request.contents[0].parts or []] == [None, None]
    assert [part.thought for part in stored.parts or []] == [True, None]
    assert request.config.system_instruction is None


async def test_the_built_in_planner_only_sets_thinking(context) -> None:
    """FLW-95: thoughts stay marked, and the planner's own config is not handed out."""
    config = types.ThinkingConfig(include_thoughts=True)
    stored = content(types.Part(text="t", thought=True))
    request = LlmRequest(contents=[stored])
    await apply_planner(BuiltInPlanner(thinking_config=config), context, request)
    assert request.config.thinking_config == config
    assert request.config.thinking_config is not config
    assert (request.contents, request.config.system_instruction) == ([stored], None)


@pytest.mark.parametrize("planner", [Sync(), Async()])
async def test_the_planner_replaces_the_parts(planner, context) -> None:
    """FLW-96: its state is in the step's delta, and the model's own response stays as it was."""
    response = says("go", model_version="m")
    result = await planned(planner, context, response)
    assert result.content
    assert [part.text for part in result.content.parts or []] == ["go!"]
    assert (result.content.role, result.model_version) == ("model", "m")
    assert context.actions.state_delta == {"plans": 1}
    assert response == says("go", model_version="m")


@pytest.mark.parametrize(
    ("planner", "response"),
    [
        (Silent(), says("go")),
        (BuiltInPlanner(thinking_config=types.ThinkingConfig()), says("go")),
        (Sync(), says("chunk", partial=True)),
        (Sync(), LlmResponse(error_code="SAFETY")),
        (Sync(), LlmResponse(content=content())),
    ],
)
async def test_what_holds_no_plan_stays_as_it_is(planner, response, context) -> None:
    """Chunks, errors, empty answers, and whatever the planner has nothing to say to."""
    assert await planned(planner, context, response) is response
    assert context.actions.state_delta == {}


async def test_what_a_planner_raises_fails_the_run_and_keeps_its_name(context) -> None:
    """DUR-10: sync and async, before and after the model."""
    with pytest.raises(CallbackError, match="no plan") as error:
        await apply_planner(Broken(), context, LlmRequest())
    assert isinstance(error.value, ValueError)
    with pytest.raises(CallbackError, match=r"^no plan$"):
        await planned(Broken(), context, says("go"))
