"""Tools that the model's provider runs; they only change the request (TOL-27)."""

from typing import Any

from google.genai import types

from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools.base_tool import BaseTool


class _ProviderTool(BaseTool):
    """A tool that Gemini runs."""

    def __init__(self, name: str, description: str, tool: types.Tool) -> None:
        super().__init__(name=name, description=description)
        self._tool = tool

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Add the tool to the request.

        Raises:
            AgentDefinitionError: The model is not a Gemini model.
        """
        del tool_context
        model = llm_request.model or ""
        # The name is the last part of: projects/p/locations/l/publishers/google/models/gemini-x
        if not model.rpartition("/")[2].startswith("gemini-"):
            raise AgentDefinitionError(
                f"The tool {self.name} is not supported for model {model!r}; only Gemini models "
                "support it."
            )
        config: Any = llm_request.config  # its union types refer to missing libraries
        config.tools = [*(config.tools or []), self._tool.model_copy(deep=True)]


class GoogleSearchTool(_ProviderTool):
    """Lets a Gemini model search the web and ground its response (TOL-27).

    Gemini rejects it together with functions. Give it to an agent with other tools as
    ``AgentTool(LlmAgent(name="searcher", tools=[google_search]))``.
    """

    def __init__(self, *, bypass_multi_tools_limit: bool = False, model: str | None = None) -> None:
        """Initialize the tool.

        Args:
            bypass_multi_tools_limit: ADK's option to use it alongside other tools; not supported.
            model: Replaces the agent's model in requests with this tool; None: unchanged.
        """
        if bypass_multi_tools_limit:
            raise AgentDefinitionError(
                "bypass_multi_tools_limit is not supported; use google_search beside other tools "
                "as AgentTool(LlmAgent(name='searcher', tools=[google_search]))."
            )
        tool = types.Tool(google_search=types.GoogleSearch())
        super().__init__("google_search", "Searches the web.", tool)
        self.model = model

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """See base class."""
        if self.model is not None:
            llm_request.model = self.model
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)


class EnterpriseWebSearchTool(_ProviderTool):
    """Lets a Gemini model on Vertex AI search the web under enterprise terms (TOL-27)."""

    def __init__(self) -> None:
        tool = types.Tool(enterprise_web_search=types.EnterpriseWebSearch())
        super().__init__("enterprise_web_search", "Searches the web.", tool)


class GoogleMapsGroundingTool(_ProviderTool):
    """Lets a Gemini model on Vertex AI use places and routes of Google Maps (TOL-27)."""

    def __init__(self) -> None:
        tool = types.Tool(google_maps=types.GoogleMaps())
        super().__init__("google_maps", "Finds places and routes.", tool)


class UrlContextTool(_ProviderTool):
    """Lets a Gemini model read the pages whose addresses are in the prompt (TOL-27)."""

    def __init__(self) -> None:
        tool = types.Tool(url_context=types.UrlContext())
        super().__init__("url_context", "Reads web pages.", tool)


enterprise_web_search_tool = EnterpriseWebSearchTool()
google_maps_grounding = GoogleMapsGroundingTool()
google_search = GoogleSearchTool()
url_context = UrlContextTool()
