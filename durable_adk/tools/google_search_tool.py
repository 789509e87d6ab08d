"""Google Search, run by the model's provider."""

from typing import TYPE_CHECKING

from google.genai import types

from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools._model_side import add_to_gemini
from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.context import ToolContext


class GoogleSearchTool(BaseTool):
    """Lets a Gemini model search the web and ground its answer (semantics TOL-27).

    Gemini refuses it beside functions. An agent with tools of its own gets it as
    ``AgentTool(LlmAgent(name="searcher", tools=[google_search]))``.
    """

    def __init__(self, *, model: str | None = None) -> None:
        """Prepare the tool.

        Args:
            model: Asked instead of the agent's own in requests with this tool; None: no other.
        """
        super().__init__(name="google_search", description="Searches the web.")
        self.model = model

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Ask for it.

        Raises:
            AgentDefinitionError: The model is not a Gemini model.
        """
        del tool_context
        if self.model is not None:
            llm_request.model = self.model
        add_to_gemini(llm_request, types.Tool(google_search=types.GoogleSearch()), self.name)


google_search = GoogleSearchTool()
"""The tool, ready to be listed."""
