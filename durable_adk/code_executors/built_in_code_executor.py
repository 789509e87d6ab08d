"""The model provider's own code executor."""

from typing import Any

from google.genai import types

from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import CodeExecutorError
from durable_adk.models.llm_request import LlmRequest


class BuiltInCodeExecutor(BaseCodeExecutor):
    """Lets the model provider run the code; nothing runs locally (FLW-91)."""

    def process_llm_request(self, llm_request: LlmRequest) -> None:
        """Add the provider's code execution tool, unless the request already has it."""
        config: Any = llm_request.config  # google-genai's union type names libraries not installed
        tools: list[Any] = list(config.tools or [])
        if not any(isinstance(tool, types.Tool) and tool.code_execution for tool in tools):
            config.tools = [*tools, types.Tool(code_execution=types.ToolCodeExecution())]

    def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Raise CodeExecutorError: the provider runs the code as part of its response."""
        del invocation_context, code_execution_input
        raise CodeExecutorError("BuiltInCodeExecutor runs no code; the model's provider does.")
