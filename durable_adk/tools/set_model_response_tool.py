"""The tool by which a model with tools gives an answer of a certain shape."""

from typing import TYPE_CHECKING, Any

from google.genai import types

from durable_adk.errors import OutputSchemaError
from durable_adk.models.llm_request import SET_MODEL_RESPONSE, LlmRequest
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.output_schema import output_from_args, output_parameters

if TYPE_CHECKING:
    from durable_adk.context.activity import ToolContext

_INSTRUCTION = (
    f"Give your final answer by calling {SET_MODEL_RESPONSE}, never as text. Call it by itself, "
    "once, when the other tools have done all that the answer needs."
)


class SetModelResponseTool(BaseTool):
    """Takes the answer of an agent that has an `output_schema` and tools (semantics AGT-19).

    Providers refuse a response schema beside function declarations, so the schema is that of a
    function. Its call ends the agent's run: the loop then yields the answer as a text of JSON.
    """

    def __init__(self, output_schema: Any) -> None:
        """Prepare the tool.

        Args:
            output_schema: The agent's.
        """
        super().__init__(
            name=SET_MODEL_RESPONSE,
            description="Gives your final answer, in the shape that these parameters have.",
            contract="pure",
        )
        self.output_schema = output_schema

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=output_parameters(self.output_schema),
        )

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Declare the tool, and say what it is for."""
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions([_INSTRUCTION])

    async def run_async(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """Take the answer; one that does not fit goes back to the model as an error."""
        try:
            answer = output_from_args(self.output_schema, args)
        except OutputSchemaError as error:
            return {"error": f"{error.message}. Correct it and call {self.name} again."}
        tool_context.actions.set_model_response = answer
        return answer
