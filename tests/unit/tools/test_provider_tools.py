"""Tools that Gemini runs itself."""

from typing import Any

import pytest

from durable_adk.errors import AgentDefinitionError
from durable_adk.models import LlmRequest
from durable_adk.tools import (
    BaseTool,
    FunctionTool,
    enterprise_web_search,
    google_maps_grounding,
    google_search,
    url_context,
)
from durable_adk.tools.google_search_tool import GoogleSearchTool

TOOLS = {
    "google_search": google_search,
    "url_context": url_context,
    "enterprise_web_search": enterprise_web_search,
    "google_maps": google_maps_grounding,
}


def add(a: int) -> int:
    """Add."""
    return a


async def requested(model: str | None, *tools: BaseTool) -> LlmRequest:
    """A request to a model with these tools."""
    request = LlmRequest(model=model)
    for tool in tools:
        await tool.process_llm_request(tool_context=None, llm_request=request)
    return request


@pytest.mark.parametrize("name", TOOLS)
async def test_a_tool_is_only_asked_for(name: str) -> None:
    """TOL-27: it is in the request's tools beside the functions, and there is nothing to call."""
    request = await requested("gemini-2.5-flash", FunctionTool(add), TOOLS[name])
    functions, own = request.config.tools
    assert [declared.name for declared in functions.function_declarations] == ["add"]
    assert own.model_dump(exclude_none=True) == {name: {}}
    assert list(request.tools_dict) == ["add"]


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("model", ["gpt-4", "my-gemini", None])
async def test_other_models_are_refused(name: str, model: Any) -> None:
    """As in ADK: only a model that has the tool can be asked for it."""
    with pytest.raises(AgentDefinitionError, match="not supported for model"):
        await requested(model, TOOLS[name])


@pytest.mark.parametrize(
    "model", ["models/gemini-x", "projects/p/publishers/google/models/gemini-x"]
)
async def test_a_path_names_a_model_too(model: str) -> None:
    """The last part of a path counts."""
    assert (await requested(model, google_search)).config.tools


async def test_a_search_may_have_a_model_of_its_own() -> None:
    """ADK's `model` argument replaces the request's model."""
    request = await requested("gpt-4", GoogleSearchTool(model="gemini-2.5-flash"))
    assert request.model == "gemini-2.5-flash"


def test_the_bypass_is_refused_with_advice() -> None:
    """ADK's option is not ignored silently."""
    with pytest.raises(AgentDefinitionError, match="AgentTool"):
        GoogleSearchTool(bypass_multi_tools_limit=True)
    assert GoogleSearchTool(bypass_multi_tools_limit=False).name == "google_search"
