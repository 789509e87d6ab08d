"""Web search for enterprises, run by the model's provider."""

from typing import TYPE_CHECKING

from google.genai import types

from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools._model_side import add_to_gemini
from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.context import ToolContext


class EnterpriseWebSearchTool(BaseTool):
    """Lets a Gemini model on Vertex AI search the web under enterprise terms (semantics TOL-27)."""

    def __init__(self) -> None:
        super().__init__(name="enterprise_web_search", description="Searches the web.")

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Ask for it.

        Raises:
            AgentDefinitionError: The model is not a Gemini model.
        """
        del tool_context
        add_to_gemini(
            llm_request, types.Tool(enterprise_web_search=types.EnterpriseWebSearch()), self.name
        )


enterprise_web_search_tool = EnterpriseWebSearchTool()
"""The tool, ready to be listed."""
