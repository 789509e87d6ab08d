"""The tool with which an agent of mode ``task`` ends its task (GR-171, GR-172)."""

from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict

from durable_adk.context.activity import ToolContext
from durable_adk.errors import OutputSchemaError
from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.output_schema import json_schema_of, output_from_args, output_parameters

FINISH_TASK = "finish_task"
RESULT = "result"
"""The argument that holds an output which is no object."""
_INSTRUCTION = (
    f"Do not call `{FINISH_TASK}` prematurely. First complete every part of the task with the "
    "tools that you have. If the task is unclear, ask the user. Once it is complete, call "
    f"`{FINISH_TASK}` by itself, without any text."
)


class _Result(BaseModel):
    """The output of a task whose agent has no `output_schema`."""

    model_config = ConfigDict(title="Result")

    result: str


class FinishTaskTool(BaseTool):
    """Receives the output of an agent's task, whose run ends with it."""

    def __init__(self, output_schema: Any, *, output_key: str | None) -> None:
        """Initialize the tool.

        Args:
            output_schema: The agent's `output_schema`; None: a text named ``result``.
            output_key: The agent's `output_key`.
        """
        about = "" if output_schema is None else " Pass the output of the task as its arguments."
        super().__init__(
            name=FINISH_TASK,
            description="Signal that this agent has completed its delegated task. Call this when "
            f"you have finished your delegated task.{about}",
            contract="pure",
        )
        self.output_schema: Any = _Result if output_schema is None else output_schema
        self.output_key = output_key
        whole = json_schema_of(self.output_schema)
        self._key = None if str(whole.get("type")).lower() == "object" else RESULT

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=output_parameters(self.output_schema, key=self._key),
        )

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Declare the tool and add an instruction for its use."""
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions([_INSTRUCTION])

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Set the output; if it does not match the schema, return an error to the model."""
        try:
            output = output_from_args(self.output_schema, args, key=self._key)
        except OutputSchemaError as error:
            return {
                "error": f"Invoking `{self.name}()` failed due to validation errors: "
                f"{error.message}. You could retry calling this tool, but it is IMPORTANT for you "
                "to provide all the mandatory parameters with correct types."
            }
        tool_context.output = output
        if self.output_key:
            tool_context.state[self.output_key] = output
        return {"result": "Task completed."}
