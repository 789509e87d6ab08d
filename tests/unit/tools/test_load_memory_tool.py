"""A model searches the user's memory."""

import pytest
from google.genai import types

from durable_adk.activities.tool.response_event import result_and_media
from durable_adk.context.activity import ToolContext
from durable_adk.context.step_scope import Services, StepScope
from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import canonical, check_json
from durable_adk.memory import InMemoryMemoryService, MemoryEntry
from durable_adk.models import LlmRequest
from durable_adk.sessions import Session
from durable_adk.tools.load_memory_tool import LoadMemoryResponse, load_memory_tool
from durable_adk.wire.messages import MAX_BYTES


def context_with(memory):
    scope = StepScope(
        session=Session(id="session", app_name="app", user_id="user"),
        invocation_id="i1",
        agent_name="agent",
        branch=None,
        user_content=None,
        services=Services(memory=memory),
    )
    return ToolContext(scope, function_call_id="c1")


def entry(text, **fields):
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return MemoryEntry(content=content, **fields)


async def search(memory, query):
    return await load_memory_tool.run_async(
        args={"query": query}, tool_context=context_with(memory)
    )


async def test_the_model_gets_what_was_said():
    """A call returns the memories that fit, as ADK's response (TOL-26)."""
    memory = InMemoryMemoryService()
    told = entry("I like tea", author="user", timestamp="2026-01-02T00:00:00+00:00", id="m1")
    await memory.add_memory(app_name="app", user_id="user", memories=[told, entry("unrelated")])
    assert await search(memory, "tea?") == LoadMemoryResponse(memories=[told])
    assert await search(memory, "coffee") == LoadMemoryResponse()


@pytest.mark.thorough
async def test_the_result_fits_into_an_event():
    """Ten memories of any length are JSON and smaller than one event may be."""
    memory = InMemoryMemoryService()
    long = [entry(f"tea {n} " + "漢" * 40_000) for n in range(10)]
    await memory.add_memory(app_name="app", user_id="user", memories=long)
    result, _ = result_and_media(await search(memory, "tea"))
    check_json(result)
    assert len(result["result"]["memories"]) == 10
    assert len(canonical(result).encode()) < MAX_BYTES


async def test_the_model_is_told_that_it_has_a_memory():
    """The tool is declared with its one parameter, and the instructions say when to use it."""
    request = LlmRequest()
    context = context_with(InMemoryMemoryService())
    await load_memory_tool.process_llm_request(tool_context=context, llm_request=request)
    assert request.tools_dict == {"load_memory": load_memory_tool}
    assert "load_memory" in request.config.system_instruction
    schema = load_memory_tool.get_declaration().parameters_json_schema
    assert list(schema["properties"]) == ["query"]


@pytest.mark.thorough
async def test_without_a_service_the_call_fails():
    """No memory service is the developer's mistake, and a ValueError (MEM-5)."""
    with pytest.raises(InvalidRequestError, match="memory_service"):
        await search(None, "tea")
