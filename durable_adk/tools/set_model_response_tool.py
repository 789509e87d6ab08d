"""The tool through which a model that has tools returns structured output."""

from typing import Any

from durable_adk.context.activity import ToolContext
from durable_adk.errors import OutputSchemaError
from durable_adk.models.llm_request import SET_MODEL_RESPONSE
from durable_adk.tools.output_schema import output_key_of
from durable_adk.tools.output_tool import OutputTool

_INSTRUCTION = (
    f"Give your final answer by calling {SET_MODEL_RESPONSE}, never as text. Call it by itself, "
    "once, when the other tools have done all that the answer needs."
)


class SetModelResponseTool(OutputTool):
    """Receives the output of an agent that has an `output_schema` and tools (AGT-19).

    Providers reject a response schema together with function declarations, so the schema is
    declared as a function. Its call ends the agent's run; the loop yields the output as JSON text.
    """

    def __init__(self, output_schema: Any) -> None:
        """Initialize the tool.

        Args:
            output_schema: The agent's `output_schema`.
        """
        super().__init__(
            SET_MODEL_RESPONSE,
            "Gives your final answer, in the shape that these parameters have.",
            _INSTRUCTION,
            output_schema,
            key=output_key_of(output_schema),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Record the output; if it does not match the schema, return an error to the model."""
        try:
            answer = self.output_of(args)
        except OutputSchemaError as error:
            return {"error": f"{error.message}. Correct it and call {self.name} again."}
        tool_context.actions.set_model_response = answer
        return answer
