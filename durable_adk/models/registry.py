"""`LLMRegistry`: finds the model class for a model name."""

import re

from durable_adk.errors import AgentDefinitionError
from durable_adk.google_objects import known_to_google_adk
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.google_llm import Gemini
from durable_adk.models.offline import OfflineModel


class LLMRegistry:
    """Finds the class for the model name of an agent (FLW-97, AGT-11)."""

    _classes: dict[str, type[BaseLlm]] = {}  # noqa: RUF012  # one table per process, as in ADK

    @classmethod
    def register(cls, llm_cls: type[BaseLlm]) -> None:
        """Register a class for its `supported_models`; the latest registration wins."""
        for pattern in llm_cls.supported_models():
            cls._classes.pop(pattern, None)
            cls._classes[pattern] = llm_cls

    @classmethod
    def resolve(cls, model: str) -> type[BaseLlm]:
        """Return the class for a model name; a class's pattern must match the whole name.

        Raises:
            AgentDefinitionError: No registered class supports it.
        """
        for pattern, llm_cls in reversed(cls._classes.items()):
            if re.fullmatch(pattern, model):
                return llm_cls
        raise AgentDefinitionError(
            f"No model class serves the name {model!r}. Known names: "
            f"{', '.join(cls._classes)}. Check the spelling; for OpenAI, Anthropic and others give "
            'the agent google-adk\'s LiteLlm (pip install "durable-adk[adk]", see '
            "docs/start/models.md) or another BaseLlm object, or register a class with "
            "LLMRegistry.register."
        )

    @classmethod
    def new_llm(cls, model: str) -> BaseLlm:
        """Return a model of this name; one of google-adk's if only its registry knows the name.

        Raises:
            AgentDefinitionError: No registered class supports it.
        """
        try:
            return cls.resolve(model)(model=model)
        except AgentDefinitionError:
            known = known_to_google_adk(model)
            if known is None:
                raise
            return known


LLMRegistry.register(OfflineModel)
LLMRegistry.register(Gemini)
