"""Tools whose arguments are an agent's output."""

from typing import Any

from google.genai import types

from durable_adk.context.activity import ToolContext
from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.output_schema import output_from_args, output_parameters


class OutputTool(BaseTool):
    """Receives the output of an agent.

    Args:
        name: The tool's name.
        description: What the model reads about it.
        instruction: Added to the instructions of each request.
        output_schema: The schema of the output.
        key: The one argument that is the output; None: the output is all arguments, an object.
    """

    def __init__(
        self, name: str, description: str, instruction: str, output_schema: Any, *, key: str | None
    ) -> None:
        super().__init__(name=name, description=description, contract="pure")
        self.output_schema = output_schema
        self._instruction, self._key = instruction, key

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=output_parameters(self.output_schema, key=self._key),
        )

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Declare the tool and add its instruction."""
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions([self._instruction])

    def output_of(self, args: dict[str, Any]) -> Any:
        """Return the JSON value of the output.

        Raises:
            OutputSchemaError: The arguments do not match the schema.
        """
        return output_from_args(self.output_schema, args, key=self._key)
