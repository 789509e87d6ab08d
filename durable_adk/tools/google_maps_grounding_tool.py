"""Google Maps, asked by the model's provider."""

from typing import TYPE_CHECKING

from google.genai import types

from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools._model_side import add_to_gemini
from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.context import ToolContext


class GoogleMapsGroundingTool(BaseTool):
    """Lets a Gemini model on Vertex AI answer from places and routes (semantics TOL-27)."""

    def __init__(self) -> None:
        super().__init__(name="google_maps", description="Finds places and routes.")

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Ask for it.

        Raises:
            AgentDefinitionError: The model is not a Gemini model.
        """
        del tool_context
        add_to_gemini(llm_request, types.Tool(google_maps=types.GoogleMaps()), self.name)


google_maps_grounding = GoogleMapsGroundingTool()
"""The tool, ready to be listed."""
