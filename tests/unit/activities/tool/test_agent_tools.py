"""The names that only the runtime's own tools and requests may have."""

from collections.abc import Callable

import pytest

from durable_adk.activities.tool import agent_tools
from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.tools import FunctionTool
from tests.support.scripts import call, send

REQUESTS = ("adk_request_confirmation", "adk_request_credential")


def named(name: str) -> FunctionTool:
    """A tool of somebody else that has this name."""
    return FunctionTool(lambda: "ran", name=name)


@pytest.mark.parametrize("name", [*REQUESTS, "transfer_to_agent"])
async def test_a_tool_with_a_name_of_the_runtime_is_left_out(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names it, once; the runtime's own tool stays, and the others."""
    agent_tools._warn_of.cache_clear()
    model = ScriptedModel(replies=[call("other"), "done"])
    agent = LlmAgent(
        name="a",
        model=model,
        tools=[named(name), named("other")],
        sub_agents=[LlmAgent(name="b", model=ScriptedModel(replies=[]))],
    )
    async with InMemoryRunner(agent) as runner:
        events = await send(runner)
    assert events[-1].text == "done"
    assert set(model.requests[0].tools_dict) == {"transfer_to_agent", "other"}
    assert not isinstance(model.requests[0].tools_dict["transfer_to_agent"], FunctionTool)
    warned = [one for one in caplog.records if one.getMessage() == "tool.left_out"]
    assert [vars(one)["tool"] for one in warned] == [name]


@pytest.mark.parametrize("tools", [[], [named]])
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_models_call_by_the_name_of_a_request_is_answered(
    name: str, tools: list[Callable[[str], FunctionTool]]
) -> None:
    """It is a call of an unknown tool: the model sees it, and the error that it is."""
    args = {"originalFunctionCall": {"id": "1", "name": "pay", "args": {}}, "functionCallId": "1"}
    model = ScriptedModel(replies=[call(name, **args), "I see."])
    agent = LlmAgent(name="a", model=model, tools=[tool(name) for tool in tools])
    async with InMemoryRunner(agent) as runner:
        events = await send(runner)
        pending = await runner.pending(user_id="u", session_id="s")
    assert (events[-1].text, pending) == ("I see.", [])
    asked, told = (content.parts[0] for content in model.requests[1].contents[-2:])
    assert asked.function_call.name == name
    assert "error" in told.function_response.response
