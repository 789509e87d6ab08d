"""Models: the interface `BaseLlm`, its registry, and the models of this package."""

from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.google_llm import Gemini
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.models.offline import OfflineModel
from durable_adk.models.registry import LLMRegistry
from durable_adk.models.scripted import ScriptedModel

__all__ = [
    "BaseLlm",
    "Gemini",
    "LLMRegistry",
    "LlmRequest",
    "LlmResponse",
    "OfflineModel",
    "ScriptedModel",
]
