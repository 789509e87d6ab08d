"""The tool with which an agent of mode ``task`` ends its task (GR-171, GR-172)."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from durable_adk.context.activity import ToolContext
from durable_adk.errors import OutputSchemaError
from durable_adk.tools.output_schema import json_schema_of
from durable_adk.tools.output_tool import OutputTool

FINISH_TASK = "finish_task"
RESULT = "result"
"""The argument that holds an output which is no object."""
IGNORED = (
    f"{FINISH_TASK} was ignored because a task delegation was sent in the same turn. Call "
    f"{FINISH_TASK} by itself once the delegated result is available."
)
_INSTRUCTION = (
    f"Do not call `{FINISH_TASK}` prematurely. First complete every part of the task with the "
    "tools that you have. If the task is unclear, ask the user. Once it is complete, call "
    f"`{FINISH_TASK}` by itself, without any text."
)


class _Result(BaseModel):
    """The output of a task whose agent has no `output_schema`."""

    model_config = ConfigDict(title="Result")

    result: str


class FinishTaskTool(OutputTool):
    """Receives the output of an agent's task, whose run ends with it."""

    def __init__(self, output_schema: Any, *, output_key: str | None) -> None:
        """Initialize the tool.

        Args:
            output_schema: The agent's `output_schema`; None: a text named ``result``.
            output_key: The agent's `output_key`.
        """
        about = "" if output_schema is None else " Pass the output of the task as its arguments."
        schema: Any = _Result if output_schema is None else output_schema
        is_object = str(json_schema_of(schema).get("type")).lower() == "object"
        super().__init__(
            FINISH_TASK,
            "Signal that this agent has completed its delegated task. Call this when you have "
            f"finished your delegated task.{about}",
            _INSTRUCTION,
            schema,
            key=None if is_object else RESULT,
        )
        self.output_key = output_key

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Set the output; if it does not match the schema, return an error to the model."""
        try:
            output = self.output_of(args)
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
