"""Tools that the model's provider runs: they only alter the request (semantics TOL-27)."""

from typing import Any

from google.genai import types

from durable_adk.errors import AgentDefinitionError
from durable_adk.models.llm_request import LlmRequest


def add_to_gemini(llm_request: LlmRequest, tool: types.Tool, name: str) -> None:
    """Add a provider's tool to the request.

    Raises:
        AgentDefinitionError: Only Gemini models have it, and the request is for another one.
    """
    model = llm_request.model or ""
    # A path's last part names the model: projects/p/locations/l/publishers/google/models/gemini-x
    if not model.rpartition("/")[2].startswith("gemini-"):
        raise AgentDefinitionError(
            f"The tool {name} is not supported for model {model!r}; only Gemini models have it."
        )
    config: Any = llm_request.config  # google-genai's union type names libraries not installed
    config.tools = [*(config.tools or []), tool]
