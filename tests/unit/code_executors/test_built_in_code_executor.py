"""The provider's own code execution."""

import pytest
from google.genai import types

from durable_adk.code_executors import BuiltInCodeExecutor, CodeExecutorError
from durable_adk.code_executors.code_execution_utils import CodeExecutionInput
from durable_adk.models import LlmRequest


def test_it_adds_the_providers_tool_once_and_nothing_else() -> None:
    """FLW-91: other tools stay, and a second call changes nothing."""
    search = types.Tool(google_search=types.GoogleSearch())
    request = LlmRequest(config=types.GenerateContentConfig(tools=[search]))
    for _ in range(2):
        BuiltInCodeExecutor().process_llm_request(request)
    code = types.Tool(code_execution=types.ToolCodeExecution())
    assert request == LlmRequest(config=types.GenerateContentConfig(tools=[search, code]))


def test_it_runs_nothing_itself(context) -> None:
    """Code that reaches it by mistake is an error, not an empty result."""
    with pytest.raises(CodeExecutorError, match="runs no code"):
        BuiltInCodeExecutor().execute_code(context, CodeExecutionInput("1"))
